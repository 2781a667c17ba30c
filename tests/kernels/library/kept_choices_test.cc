#include "ringrad/kernels/library/kept_choices.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <utility>

#include "ringrad/core/base/error.h"

namespace ringrad::kernels {
namespace {

namespace fs = std::filesystem;
using ::testing::internal::CaptureStderr;
using ::testing::internal::GetCapturedStderr;

const std::string kLibrary = "cudnn 91900", kDevice = "NVIDIA H100 80GB HBM3";

class KeptChoicesTest : public ::testing::Test {
 protected:
  KeptChoicesTest() {
    std::string name = (fs::path(::testing::TempDir()) / "choices.XXXXXX").string();
    folder_ = mkdtemp(name.data());
    file_ = folder_ / "ringrad" / "cudnn_91900-NVIDIA_H100_80GB_HBM3.json";
  }
  ~KeptChoicesTest() override { fs::remove_all(folder_); }

  KeptChoices open(const std::string& library = kLibrary, const std::string& device = kDevice) {
    return KeptChoices(folder_ / "ringrad", library, device);
  }
  void overwrite(const std::string& text) {
    fs::create_directories(file_.parent_path());
    std::ofstream(file_, std::ios::binary) << text;
  }
  std::string content() {
    std::ostringstream text;
    text << std::ifstream(file_).rdbuf();
    return text.str();
  }
  // The file is ignored with this message, and stays as it is.
  void expect_ignored(const std::string& why) {
    CaptureStderr();
    KeptChoices choices = open();
    EXPECT_FALSE(choices.find("a"));
    choices.keep("b", "2");
    EXPECT_EQ(choices.find("b"), "2");
    const std::string said = GetCapturedStderr();
    EXPECT_NE(said.find(why), std::string::npos) << said;
    EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  }

  fs::path folder_, file_;
};

TEST_F(KeptChoicesTest, AreFoundByTheNextProcess) {
  {
    KeptChoices choices = open();
    EXPECT_FALSE(choices.find("0,4,32"));
    choices.keep("0,4,32", "eng12_k2=4");
    choices.keep("1,4,32", "eng3");
  }
  EXPECT_EQ(open().find("0,4,32"), "eng12_k2=4");
  EXPECT_EQ(open().find("1,4,32"), "eng3");
  EXPECT_FALSE(open().find("2,4,32"));
}

TEST_F(KeptChoicesTest, BelongToOneLibraryAndDevice) {
  open().keep("a", "1");
  EXPECT_FALSE(open("cudnn 91901").find("a"));
  EXPECT_FALSE(open(kLibrary, "NVIDIA A100").find("a"));
  EXPECT_EQ(open().file(), file_);
  EXPECT_EQ(open(kLibrary, "../a/b\n").file().parent_path(), folder_ / "ringrad");
}

TEST_F(KeptChoicesTest, OfSeveralProcessesAllStay) {
  KeptChoices first = open(), second = open();
  first.keep("a", "1");
  second.keep("b", "2");
  first.keep("c", "3");
  for (const auto& [problem, choice] : {std::pair("a", "1"), {"b", "2"}, {"c", "3"}})
    EXPECT_EQ(open().find(problem), choice);
  // Only the file remains.
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_ / "ringrad"), {}), 1);
}

TEST_F(KeptChoicesTest, AFileOfOthersIsReportedAndLeftAlone) {
  const std::string good =
      R"({"library": "cudnn 91900", "device": "NVIDIA H100 80GB HBM3", "choices": {"a": "1"}})";
  overwrite(good);
  EXPECT_EQ(open().find("a"), "1");
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    return text.replace(text.find(from), from.size(), to);
  };
  const std::pair<std::string, const char*> cases[] = {
      {"", "must be JSON"},
      {good.substr(0, good.size() / 2), "must be JSON"},
      {std::string("\x1b[2J\0\xff", 6), "must be JSON"},
      {"[]", "must have a member \"library\"; got none"},
      {changed("91900", "91901"), "must have library \"cudnn 91900\"; got"},
      {changed("H100", "A100"), "must have device"},
      {changed("\"cudnn 91900\"", "7"), "must have library"},
      {changed("choices", "Choices"), "must have a member \"choices\""},
      {changed(R"({"a": "1"})", "[1]"), "must have choices by problem; got array"},
      {changed("\"1\"", "1"), "must name choices; got number"},
      {changed("\"1\"", "[[]]"), "must be nested at most 3 deep"},
      {changed("\"1\"", concat('"', std::string(301, 'x'), '"')), "in at most 300 characters"},
      {changed("\"1\"", R"("1", "a": "2")"), "must have each name once"},
      {std::string((1 << 20) + 1, ' '), "must have at most 1048576 bytes"}};
  for (const auto& [text, why] : cases) {
    SCOPED_TRACE(text.substr(0, 200));
    overwrite(text);
    expect_ignored(why);
    EXPECT_EQ(content(), text);
  }
}

TEST_F(KeptChoicesTest, WhatIsNoFileIsIgnored) {
  fs::create_directories(file_);
  expect_ignored("must be a regular file; got another kind of file");
  fs::remove(file_);
  ASSERT_EQ(mkfifo(file_.c_str(), 0600), 0);
  expect_ignored("must be a regular file");
}

TEST_F(KeptChoicesTest, WithoutAFolderTheyLastAsLongAsTheProcess) {
  KeptChoices choices({}, kLibrary, kDevice);
  choices.keep("a", "1");
  EXPECT_EQ(choices.find("a"), "1");
  EXPECT_TRUE(choices.file().empty());

  std::ofstream(folder_ / "ringrad") << "a file where the folder should be";
  CaptureStderr();
  KeptChoices nowhere = open();
  nowhere.keep("a", "1");
  EXPECT_EQ(nowhere.find("a"), "1");
  EXPECT_NE(GetCapturedStderr().find("is ignored: it must be"), std::string::npos);
}

TEST_F(KeptChoicesTest, LieWhereCachesDo) {
  const auto set = [](const char* cache, const char* home) {
    setenv("XDG_CACHE_HOME", cache, 1);
    setenv("HOME", home, 1);
  };
  set("/a/cache", "/home/b");
  EXPECT_EQ(cache_folder(), "/a/cache/ringrad");
  for (const char* none : {"", "relative"}) {
    set(none, "/home/b");
    EXPECT_EQ(cache_folder(), "/home/b/.cache/ringrad");
  }
  set("", "");
  EXPECT_EQ(cache_folder(), "");
}

TEST(ParseCandidatesTest, TakesWholeNumbersFrom1To100) {
  EXPECT_EQ(parse_candidates(nullptr, 3), 3);
  EXPECT_EQ(parse_candidates("1", 3), 1);
  EXPECT_EQ(parse_candidates("100", 3), 100);
  for (const char* text : {"", "0", "-1", "101", "3x", " 3", "1e1", "99999999999"})
    EXPECT_THROW(parse_candidates(text, 3), ValueError) << text;
}

}  // namespace
}  // namespace ringrad::kernels
