// Files of kept choices. A damaged file is ignored, so the reader throws nothing; a choice that was
// read must come back after it is kept again.

#include <cstdlib>
#include <filesystem>

#include "ringrad/kernels/library/kept_choices.h"
#include "ringrad/tests/fuzz/input.h"

namespace {

using ringrad::kernels::KeptChoices;
namespace fs = std::filesystem;

class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "choices.XXXXXX").string();
    ringrad::fuzz::must(mkdtemp(name.data()) != nullptr, "a temporary folder");
    path_ = name;
  }
  ~Folder() { fs::remove_all(path_); }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

KeptChoices open(const Folder& folder) { return KeptChoices(folder.path(), "library", "device"); }

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Folder given, written;
  static ringrad::fuzz::MemoryFile file;
  static const bool linked = [] {
    fs::create_symlink(file.path(), open(given).file());
    return true;
  }();
  ringrad::fuzz::must(linked, "a link to the file in memory");
  file.hold(ringrad::fuzz::text_of(data, size));
  if (const auto choice = open(given).find("problem")) {
    open(written).keep("problem", *choice);
    ringrad::fuzz::must(open(written).find("problem") == choice, "a choice is found again");
  }
  return 0;
}
