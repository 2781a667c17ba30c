#include "ringrad/parallel/comm/store/store_auth.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "ringrad/core/base/error.h"
#include "ringrad/parallel/comm/common/system_limits.h"
#include "ringrad/parallel/comm/store/store_address.h"

namespace ringrad {
namespace {

StoreMac hmac(std::string_view key, const std::string& message) {
  // A store that is a static object may work until after main(), and OpenSSL must still be there.
  static const int is_ready = OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr);
  StoreMac mac{};
  unsigned size = 0;
  const auto* const bytes = reinterpret_cast<const unsigned char*>(message.data());
  const bool good = is_ready == 1 && HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
                                          bytes, message.size(), mac.data(), &size) != nullptr;
  RINGRAD_CHECK(good && size == mac.size(), Error, Where::current(),
                "store: libcrypto must compute HMAC-SHA256; got an error");
  return mac;
}

}  // namespace

StoreNonce make_nonce() {
  StoreNonce nonce;
  RINGRAD_CHECK(getentropy(nonce.data(), nonce.size()) == 0, Error, Where::current(),
                "store: the system must give random bytes; got ", text_of_errno(errno));
  return nonce;
}

StoreKeys derive_keys(std::string_view token, const StoreNonce& client, const StoreNonce& server) {
  const auto derive = [&](const char* label) {
    return hmac(token, concat(label, '\0', bytes_of(client), bytes_of(server)));
  };
  return {derive("ringrad store server proof"), derive("ringrad store client proof"),
          derive("ringrad store to server"), derive("ringrad store to client")};
}

std::string derive_name(std::string_view token, std::string_view what) {
  const StoreMac mac = hmac(token, concat("ringrad store name", '\0', what));
  return hex(std::span(mac).first(mac.size() / 2));
}

bool is_same(const StoreMac& mac, std::string_view bytes) {
  return bytes.size() == mac.size() && CRYPTO_memcmp(mac.data(), bytes.data(), mac.size()) == 0;
}

std::array<std::uint8_t, 32> array_of(std::string_view bytes) {
  std::array<std::uint8_t, 32> array{};
  std::copy_n(bytes.begin(), array.size(), array.begin());
  return array;
}

StoreMac StoreSeal::mac_of(std::string_view payload) const {
  std::string message(sizeof num_payloads_, '\0');
  for (std::size_t i = 0; i < message.size(); ++i)
    message[i] = static_cast<char>(num_payloads_ >> (8 * i));
  return hmac(bytes_of(key_), message.append(payload));
}

std::string StoreSeal::seal(std::string payload) {
  const StoreMac mac = mac_of(payload);
  ++num_payloads_;
  return payload.append(bytes_of(mac));
}

bool StoreSeal::open(std::string& sealed) {
  if (sealed.size() < kMacBytes) return false;
  const std::string_view all = sealed;
  const std::size_t payload_bytes = all.size() - kMacBytes;
  if (!is_same(mac_of(all.substr(0, payload_bytes)), all.substr(payload_bytes))) return false;
  ++num_payloads_;
  sealed.resize(payload_bytes);
  return true;
}

}  // namespace ringrad
