#include "ringrad/core/trace.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using nlohmann::json;

class TraceTest : public ::testing::Test {
 protected:
  ~TraceTest() override { end_trace(); }
  const std::string path_ = ::testing::TempDir() + "trace_test.json";

  json read() const {
    std::ifstream file(path_);
    return json::parse(file);
  }
  // The spans among the events, by name.
  std::map<std::string, json> spans() const {
    std::map<std::string, json> result;
    for (const json& event : read())
      if (event["ph"] == "X") result[event["name"]] = event;
    return result;
  }
};

TEST_F(TraceTest, SpansNestAsTheyDidAndThreadsHaveNames) {
  trace_to(path_);
  {
    const TraceThread name(3, "compute");
    const TraceSpan outer("outer", "compute");
    const TraceSpan inner("inner", "compute");
  }
  std::thread([] {
    const TraceThread name(3, "communication");
    const TraceSpan span("bucket \"0\"\n", "communication");
  }).join();
  end_trace();
  const auto all = spans();
  const json &outer = all.at("outer"), &inner = all.at("inner"), &other = all.at("bucket \"0\"\n");
  EXPECT_GE(inner["ts"], outer["ts"]);
  EXPECT_LE(double(inner["ts"]) + double(inner["dur"]),
            double(outer["ts"]) + double(outer["dur"]) + 1e-3);
  EXPECT_EQ(outer["pid"], 3);
  EXPECT_EQ(other["pid"], 3);
  EXPECT_NE(outer["tid"], other["tid"]);
  std::map<int, std::string> names;
  for (const json& event : read())
    if (event["name"] == "thread_name") names[event["tid"]] = event["args"]["name"];
  EXPECT_EQ(names[outer["tid"]], "compute");
  EXPECT_EQ(names[other["tid"]], "communication");
}

TEST_F(TraceTest, MalformedMembersAreLeftOut) {
  trace_to(path_);
  {
    const TraceSpan span("span", "compute", [] { return std::string("\"a\":"); });
  }
  {
    const TraceSpan span("other", "compute", [] { return std::string("\"a\":1"); });
  }
  end_trace();
  EXPECT_FALSE(spans().at("span").contains("args"));
  EXPECT_EQ(spans().at("other")["args"]["a"], 1);
}

TEST_F(TraceTest, WithoutAFileNothingIsWritten) {
  EXPECT_FALSE(is_tracing());
  { const TraceSpan span("nobody sees it", "compute"); }
  trace_to(path_);
  EXPECT_TRUE(is_tracing());
  end_trace();
  EXPECT_TRUE(spans().empty());
}

TEST_F(TraceTest, ASpansTextIsMadeOnlyForAFile) {
  int asked = 0;
  const auto args = [&] { return concat("\"chunk\":", ++asked); };
  { const TraceSpan span("unseen", "step", args); }
  EXPECT_EQ(asked, 0);
  trace_to(path_);
  { const TraceSpan span("seen", "step", args); }
  end_trace();
  EXPECT_EQ(spans().at("seen")["args"]["chunk"], 1);
}

TEST_F(TraceTest, ThreadsOfOneNameHaveRowsOfTheirOwn) {
  trace_to(path_);
  {
    const TraceThread one(2, "loader 0");
    const TraceSpan span("first", "data");
    std::thread([group = trace_group()] {
      EXPECT_EQ(group, 2);
      const TraceThread other(group, "loader 0");
      const TraceSpan second("second", "data");
    }).join();
  }
  const TraceThread after(2, "loader 0");
  { const TraceSpan span("third", "data"); }
  end_trace();
  auto all = spans();
  EXPECT_NE(all["first"]["tid"], all["second"]["tid"]);
  EXPECT_EQ(all["first"]["tid"], all["third"]["tid"]);
}

TEST_F(TraceTest, ManyThreadsWriteOneFile) {
  trace_to(path_);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([] {
      for (int i = 0; i < 100; ++i) const TraceSpan span("work", "compute");
    });
  for (std::thread& thread : threads) thread.join();
  end_trace();
  int count = 0;
  for (const json& event : read()) count += event["name"] == "work";
  EXPECT_EQ(count, 400);
}

// A killed process leaves such a file: all but the end of the array.
TEST_F(TraceTest, ASpanIsInTheFileAsSoonAsItHasEnded) {
  trace_to(path_);
  { const TraceSpan span("last words", "compute"); }
  std::stringstream text;
  text << std::ifstream(path_).rdbuf() << ']';
  EXPECT_EQ(json::parse(text).back()["name"], "last words");
}

// Runs a program that RINGRAD_TRACE tells to write to `path`: it says that it is `process`.
void trace_in_a_program(const std::string& path, const TraceProcess& process) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // the variable is read when a program begins
  setenv("RINGRAD_TRACE", path.c_str(), 1);
  EXPECT_EXIT(
      {
        set_trace_process(process);
        { const TraceSpan span("work", "compute"); }
        std::exit(0);
      },
      ::testing::ExitedWithCode(0), "");
  unsetenv("RINGRAD_TRACE");
}

TEST_F(TraceTest, AProcessOfManyHasAFileAndAGroupOfItsOwn) {
  trace_in_a_program(path_, {.kind = "worker", .number = 7, .is_one_of_many = true});
  std::ifstream file(path_ + ".7");
  const json events = json::parse(file, nullptr, false);
  ASSERT_TRUE(events.is_array() && !events.empty());
  EXPECT_EQ(events.front()["args"]["name"], "worker 7");
  EXPECT_EQ(events.back()["pid"], 7);
}

TEST_F(TraceTest, AFileThatAnotherProcessWritesIsLeftAlone) {
  std::ofstream(path_) << "of another";
  const int other = open(path_.c_str(), O_WRONLY);
  flock(other, LOCK_EX | LOCK_NB);  // fails in the program below, which comes here as well
  trace_in_a_program(path_, {});
  close(other);
  std::stringstream text;
  text << std::ifstream(path_).rdbuf();
  EXPECT_EQ(text.str(), "of another");
  int num_others = 0;  // files with the name of the program's process
  for (const auto& entry : std::filesystem::directory_iterator(::testing::TempDir())) {
    const std::string name = entry.path().string();
    if (!name.starts_with(path_ + '.')) continue;
    std::ifstream file(name);
    const json events = json::parse(file, nullptr, false);
    num_others += events.is_array() && events.back()["name"] == "work" && events.back()["pid"] == 0;
  }
  EXPECT_EQ(num_others, 1);

  trace_in_a_program(path_, {});  // what an earlier program has left is overwritten
  std::ifstream file(path_);
  EXPECT_TRUE(json::parse(file, nullptr, false).is_array());
}

TEST_F(TraceTest, AFileThatCannotBeWrittenIsNamed) {
  trace_to(path_);
  testing::expect_throws<DataError>([] { trace_to("/nowhere/trace.json"); }, "/nowhere/trace.json");
  EXPECT_FALSE(is_tracing());
}

TEST_F(TraceTest, EventsThatAreLostAreAnErrorAtTheEnd) {
  trace_to("/dev/full");
  { const TraceSpan span("lost", "compute"); }
  { const TraceSpan span("also", "compute"); }
  testing::expect_throws<DataError>(
      [] { end_trace(); }, "trace: /dev/full must be writable; got \"No space left on device\"");
  end_trace();  // there is none any more
  testing::expect_throws<DataError>([] { trace_to("/none/trace.json"); },
                                    "/none/trace.json, \"No such file or directory\"");
}

}  // namespace
}  // namespace ringrad
