#include "ringrad/parallel/comm/store/store_protocol.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "ringrad/parallel/comm/store/store_auth.h"
#include "ringrad/parallel/comm/store/store_values.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using Operation = StoreRequest::Operation;
using Status = StoreAnswer::Status;

TEST(StoreProtocolTest, RequestsAndAnswersComeBackAsTheyWere) {
  const std::string bytes("zero \0 inside\xff", 14);
  for (const StoreRequest& request :
       {StoreRequest{.operation = Operation::set, .name = "a/b", .value = bytes},
        StoreRequest{.operation = Operation::set_first, .name = "c", .value = ""},
        StoreRequest{.name = "d", .wait = std::chrono::milliseconds(0xfffffffe)},
        StoreRequest{.operation = Operation::add, .name = "e", .amount = -5}}) {
    const auto back = decode_request(encode(request));
    ASSERT_TRUE(back.has_value());
    EXPECT_EQ(back->operation, request.operation);
    EXPECT_EQ(back->name, request.name);
    EXPECT_EQ(back->value, request.value);
    EXPECT_EQ(back->wait, request.wait);
    EXPECT_EQ(back->amount, request.amount);
  }
  const auto answer = decode_answer(encode(StoreAnswer{Status::refused, bytes}));
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->status, Status::refused);
  EXPECT_EQ(answer->text, bytes);
}

TEST(StoreProtocolTest, WhatIsNoRequestIsRefused) {
  const std::string add = encode({.operation = Operation::add, .name = "sum", .amount = 1});
  for (std::size_t size = 0; size < add.size(); ++size)
    EXPECT_FALSE(decode_request(add.substr(0, size))) << size;
  EXPECT_FALSE(decode_request(add + 'x'));
  EXPECT_FALSE(decode_request('\0' + add.substr(1)));
  EXPECT_FALSE(decode_request('\5' + add.substr(1)));
  for (const char* name : {"", "a b", "\n", "100%"})
    EXPECT_FALSE(decode_request(encode({.operation = Operation::set, .name = name})));
  const auto set = [](std::size_t name, std::size_t value) {
    return encode({.operation = Operation::set,
                   .name = std::string(name, 'n'),
                   .value = std::string(value, 'v')});
  };
  EXPECT_TRUE(decode_request(set(kMostNameBytes, kMostValueBytes)));
  EXPECT_FALSE(decode_request(set(kMostNameBytes + 1, 0)));
  EXPECT_FALSE(decode_request(set(1, kMostValueBytes + 1)));
  EXPECT_FALSE(decode_answer(""));
  EXPECT_FALSE(decode_answer("\5"));
  EXPECT_FALSE(decode_answer(std::string(kMostValueBytes + 2, '\1')));
}

// Any bytes are read without a crash. The result is within the limits and encodes to the same
// bytes.
TEST(StoreProtocolTest, RandomBytesAreRefusedOrMeanThemselves) {
  std::mt19937 random(7);
  int num_requests = 0;
  for (int i = 0; i < 200000; ++i) {
    std::string bytes(random() % 24, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random() % (random() % 2 ? 8 : 256));
    if (bytes.size() > 3) bytes[3] = 'n';
    if (const auto request = decode_request(bytes)) {
      ++num_requests;
      EXPECT_EQ(encode(*request), bytes);
    }
    const auto answer = decode_answer(bytes);
    EXPECT_EQ(answer ? encode(*answer) : bytes, bytes);
  }
  EXPECT_GT(num_requests, 50);
}

// --- Values ---

TEST(StoreValuesTest, HoldsAsManyBytesAsItMay) {
  const std::string value(1000, 'v');
  StoreValues values(3 * (kEntryBytes + 1 + value.size()));
  const auto set = [&](const std::string& name, const std::string& text) {
    return values.perform({.operation = Operation::set, .name = name, .value = text}).status;
  };
  for (const char* name : {"a", "b", "c", "a"}) EXPECT_EQ(set(name, value), Status::done);
  EXPECT_EQ(set("d", ""), Status::refused);
  EXPECT_EQ(values.perform({.operation = Operation::add, .name = "n", .amount = 1}).status,
            Status::refused);
  EXPECT_EQ(set("c", value + 'v'), Status::refused);
  EXPECT_EQ(values.perform({.name = "c"}).text, value);  // the refused request has changed nothing
  EXPECT_EQ(set("b", ""), Status::done);                 // makes room
  EXPECT_EQ(set("d", ""), Status::done);
}

// --- Proofs and seals ---

TEST(StoreAuthTest, KeysDependOnTheTokenBothNoncesAndTheirUse) {
  const StoreNonce a = make_nonce(), b = make_nonce();
  EXPECT_NE(a, b);
  const StoreKeys keys = derive_keys("token", a, b);
  EXPECT_EQ(keys.server_proof, derive_keys("token", a, b).server_proof);
  EXPECT_NE(keys.server_proof, derive_keys("tokem", a, b).server_proof);
  EXPECT_NE(keys.server_proof, derive_keys("token", b, a).server_proof);
  EXPECT_NE(keys.server_proof, keys.client_proof);
  EXPECT_NE(keys.to_server, keys.to_client);
  EXPECT_TRUE(is_same(keys.client_proof, bytes_of(keys.client_proof)));
  EXPECT_FALSE(is_same(keys.client_proof, bytes_of(keys.server_proof)));
  EXPECT_FALSE(is_same(keys.client_proof, bytes_of(keys.client_proof).substr(1)));
}

TEST(StoreAuthTest, SealsOpenOnceInOrderAndUnchanged) {
  const StoreMac key = derive_keys("token", make_nonce(), make_nonce()).to_server;
  StoreSeal writer(key), reader(key);
  const std::string first = writer.seal("first"), second = writer.seal("");
  std::string early = second, changed = first, right = first, again = first, last = second;
  changed[0] = 'F';
  EXPECT_FALSE(reader.open(early));
  EXPECT_FALSE(reader.open(changed));
  EXPECT_TRUE(reader.open(right));
  EXPECT_EQ(right, "first");
  EXPECT_FALSE(reader.open(again));
  EXPECT_TRUE(reader.open(last));
  EXPECT_EQ(last, "");
  std::string short_one(kMacBytes - 1, 'm');
  EXPECT_FALSE(reader.open(short_one));
}

}  // namespace
}  // namespace ringrad
