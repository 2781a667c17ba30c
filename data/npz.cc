#include "ringrad/data/npz.h"

#include <zip.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "ringrad/core/file/atomic_file.h"
#include "ringrad/core/untrusted/quoted_bytes.h"
#include "ringrad/data/npy_array.h"

namespace ringrad {
namespace {

constexpr std::string_view kSuffix = ".npy";

struct Discard {
  void operator()(zip_t* archive) const { zip_discard(archive); }
  void operator()(zip_file_t* member) const { zip_fclose(member); }
  void operator()(zip_source_t* source) const { zip_source_free(source); }
};
using Archive = std::unique_ptr<zip_t, Discard>;

Archive open(const std::filesystem::path& path, Where where) {
  int code = 0;
  Archive archive(zip_open(path.c_str(), ZIP_RDONLY | ZIP_CHECKCONS, &code));
  if (archive) return archive;
  zip_error_t error;
  zip_error_init_with_code(&error, code);
  const std::string reason = zip_error_strerror(&error);
  zip_error_fini(&error);
  throw DataError(concat("read_npz: ", path.string(),
                         " must be a zip archive with one member of each name; got ", reason),
                  where);
}

// --- Reading ---

class MemberReader final : public ByteReader {
 public:
  MemberReader(zip_t& archive, std::uint64_t index, const std::filesystem::path& path,
               const std::string& name, std::uint64_t& unclaimed_bytes, Where where)
      : ByteReader("read_npz", concat(path.string(), ", array ", quoted_bytes(name)), where) {
    zip_stat_t facts;
    zip_stat_init(&facts);
    constexpr std::uint64_t kNeeded =
        ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD | ZIP_STAT_ENCRYPTION_METHOD;
    if (zip_stat_index(&archive, index, 0, &facts) != 0 || (facts.valid & kNeeded) != kNeeded)
      fail("must have its sizes in the archive", zip_strerror(&archive));
    if (facts.encryption_method != ZIP_EM_NONE) fail("must not be encrypted", "a member that is");
    const bool is_stored = facts.comp_method == ZIP_CM_STORE;
    if (!is_stored && facts.comp_method != ZIP_CM_DEFLATE)
      fail("must be stored or deflated", "method ", facts.comp_method);
    // Members that share bytes could ask for far more memory than a file of this size is worth.
    if (facts.comp_size > unclaimed_bytes)
      fail(concat("must lie in the archive's ", unclaimed_bytes, " bytes that no other array has"),
           facts.comp_size);
    unclaimed_bytes -= facts.comp_size;
    most_bytes_ =
        std::min(facts.size, is_stored ? facts.comp_size : most_inflated(facts.comp_size));
    member_.reset(zip_fopen_index(&archive, index, 0));
    if (!member_) fail("must be readable", zip_strerror(&archive));
  }

  std::size_t read(std::span<std::byte> out) override {
    std::size_t done = 0;
    while (done < out.size()) {
      const zip_int64_t count = zip_fread(member_.get(), out.data() + done, out.size() - done);
      if (count < 0) fail("must be readable", zip_file_strerror(member_.get()));
      if (count == 0) break;
      done += static_cast<std::size_t>(count);
    }
    return done;
  }

  std::uint64_t most_bytes() const override { return most_bytes_; }

 private:
  std::uint64_t most_bytes_ = 0;
  std::unique_ptr<zip_file_t, Discard> member_;
};

// Arrays' names without their suffix, and their places in the archive.
std::map<std::string, std::uint64_t> members_of(zip_t& archive) {
  std::map<std::string, std::uint64_t> members;
  for (zip_int64_t i = 0; i < zip_get_num_entries(&archive, 0); ++i) {
    const auto index = static_cast<std::uint64_t>(i);
    const char* const name = zip_get_name(&archive, index, ZIP_FL_ENC_RAW);
    if (!name || !std::string_view(name).ends_with(kSuffix)) continue;
    const std::string_view bare =
        std::string_view(name).substr(0, std::string_view(name).size() - kSuffix.size());
    members.emplace(bare, index);  // libzip has refused equal names
  }
  return members;
}

std::map<std::string, Tensor> read(const std::filesystem::path& path,
                                   const std::vector<std::string>* names, Where where) {
  std::error_code error;  // opening a pipe would wait for a writer
  RINGRAD_CHECK(std::filesystem::is_regular_file(path, error), DataError, where,
                "read_npz: ", path.string(), " must be a regular file; got ",
                error ? error.message() : "another kind");
  std::uint64_t unclaimed_bytes = std::filesystem::file_size(path, error);
  const Archive archive = open(path, where);
  auto members = members_of(*archive);
  if (names) {
    std::map<std::string, std::uint64_t> asked;
    for (const std::string& name : *names) {
      const auto member = members.find(name);
      if (member == members.end()) {
        std::string known;
        for (const auto& [other, index] : members)
          known += (known.empty() ? "" : ", ") + quoted_bytes(other);
        throw DataError(concat("read_npz: ", path.string(), " must have an array ",
                               quoted_bytes(name), "; got those called ", known),
                        where);
      }
      asked.insert(*member);
    }
    members = std::move(asked);
  }
  std::map<std::string, Tensor> tensors;
  for (const auto& [name, index] : members) {
    MemberReader bytes(*archive, index, path, name, unclaimed_bytes, where);
    tensors.emplace(name, read_npy_array(bytes, where));
  }
  return tensors;
}

// --- Writing ---

class ArchiveInMemory {
 public:
  ArchiveInMemory(const std::filesystem::path& path, Where where)
      : path_(path),
        where_(where),
        bytes_(zip_source_buffer_create(nullptr, 0, 0, nullptr)),
        archive_(bytes_ ? zip_open_from_source(bytes_.get(), ZIP_TRUNCATE, nullptr) : nullptr) {
    check(archive_ != nullptr, "no memory");
    zip_source_keep(bytes_.get());  // the archive frees it once
  }

  /// REQUIRES: content outlives finish()
  void add(const std::string& name, const std::string& content, bool deflates) {
    zip_t* const archive = archive_.get();
    zip_source_t* const source = zip_source_buffer(archive, content.data(), content.size(), 0);
    check(source != nullptr, zip_strerror(archive));
    const zip_int64_t index = zip_file_add(archive, name.c_str(), source, ZIP_FL_ENC_UTF_8);
    if (index < 0) zip_source_free(source);
    check(index >= 0, zip_strerror(archive));
    const auto at = static_cast<std::uint64_t>(index);
    constexpr std::uint16_t kFirstDay = 1 << 5 | 1;  // 1 January 1980, as NumPy has
    const zip_int32_t method = deflates ? ZIP_CM_DEFLATE : ZIP_CM_STORE;
    check(zip_file_set_dostime(archive, at, 0, kFirstDay, 0) == 0 &&
              zip_set_file_compression(archive, at, method, 0) == 0,
          zip_strerror(archive));
  }

  /// The archive's bytes.
  std::string finish() {
    // libzip writes nothing for an archive without members. Its format: the record of the end.
    if (zip_get_num_entries(archive_.get(), 0) == 0)
      return std::string("PK\5\6").append(kEmptyEndBytes, '\0');
    check(zip_close(archive_.get()) == 0, zip_strerror(archive_.get()));
    [[maybe_unused]] const zip_t* const closed = archive_.release();
    zip_source_t* const source = bytes_.get();
    zip_stat_t facts;
    zip_stat_init(&facts);
    const bool is_open = zip_source_open(source) == 0 && zip_source_stat(source, &facts) == 0;
    std::string bytes(is_open ? facts.size : 0, '\0');
    const bool is_read = is_open && zip_source_read(source, bytes.data(), bytes.size()) ==
                                        static_cast<zip_int64_t>(bytes.size());
    check(is_read, zip_error_strerror(zip_source_error(source)));
    zip_source_close(source);
    return bytes;
  }

 private:
  static constexpr std::size_t kEmptyEndBytes = 18;

  void check(bool holds, const char* got) const {
    RINGRAD_CHECK(holds, DataError, where_, "write_npz: ", path_.string(),
                  " must be writable; got ", got);
  }

  const std::filesystem::path path_;
  const Where where_;
  std::unique_ptr<zip_source_t, Discard> bytes_;
  Archive archive_;
};

}  // namespace

std::map<std::string, Tensor> read_npz(const std::filesystem::path& path, Where where) {
  return read(path, nullptr, where);
}

std::map<std::string, Tensor> read_npz(const std::filesystem::path& path,
                                       const std::vector<std::string>& names, Where where) {
  return read(path, &names, where);
}

void write_npz(const std::filesystem::path& path, const std::map<std::string, Tensor>& tensors,
               bool deflates, Where where) {
  std::vector<std::string> contents;  // libzip reads them when it closes the archive
  for (const auto& [name, x] : tensors) {
    RINGRAD_CHECK(x.defined(), ValueError, where,
                  "write_npz: tensors must be defined; got an undefined ", quoted_bytes(name));
    check_npy_dtype("write_npz", x, where);
    RINGRAD_CHECK(!name.empty() && name.find('\0') == std::string::npos, ValueError, where,
                  "write_npz: a name must have bytes, none of them 0; got ", name.size(), " bytes");
    std::string& content = contents.emplace_back();
    write_npy_array(
        [&](std::span<const std::byte> bytes) {
          content.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
        },
        x, where);
  }
  ArchiveInMemory archive(path, where);
  auto content = contents.begin();
  for (const auto& [name, x] : tensors)
    archive.add(name + std::string(kSuffix), *content++, deflates);
  write_file("write_npz", path, archive.finish(), where);
}

}  // namespace ringrad
