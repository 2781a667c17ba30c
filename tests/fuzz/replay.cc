// Feeds a fuzz target every file of the folder that the command line names: one test case per file.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

class Replay : public testing::Test {
 public:
  explicit Replay(std::filesystem::path path) : path_(std::move(path)) {}

  void TestBody() override {
    std::ifstream file(path_, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    ASSERT_TRUE(file) << path_;
    EXPECT_EQ(
        LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()),
        0);
  }

 private:
  const std::filesystem::path path_;
};

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  std::vector<std::filesystem::path> files;
  if (argc == 2)
    for (const auto& entry : std::filesystem::directory_iterator(argv[1]))
      files.push_back(entry.path());
  if (files.empty()) {
    std::fprintf(stderr, "replay: needs a folder of inputs\n");
    return 1;
  }
  std::sort(files.begin(), files.end());
  for (const auto& file : files)
    testing::RegisterTest("Corpus", file.filename().c_str(), nullptr, nullptr, __FILE__, __LINE__,
                          [file]() -> testing::Test* { return new Replay(file); });
  return RUN_ALL_TESTS();
}
