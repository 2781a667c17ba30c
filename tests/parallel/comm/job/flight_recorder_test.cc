#include "ringrad/parallel/comm/record/flight_recorder.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "ringrad/parallel/comm/host/ranks.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_throws;

CollectiveCall barrier_of(std::int64_t count) { return {.count = count}; }

TEST(FlightRecorderTest, KeepsTheLatestOperations) {
  FlightRecorder recorder("test");
  const auto total = static_cast<std::int64_t>(FlightRecorder::kRecords) + 10;
  for (std::int64_t i = 0; i < total; ++i) {
    recorder.begin(barrier_of(i), Where::current());
    if (i + 1 < total) recorder.end(FlightRecord::State::finished);
  }
  const auto records = recorder.records();
  ASSERT_EQ(records.size(), FlightRecorder::kRecords);
  EXPECT_EQ(records.front().sequence, 11u);
  EXPECT_EQ(records.front().call.count, 10);
  EXPECT_EQ(records.front().state, FlightRecord::State::finished);
  EXPECT_EQ(records.back().sequence, static_cast<std::uint64_t>(total));
  EXPECT_EQ(records.back().state, FlightRecord::State::started);
}

TEST(FlightRecorderTest, TellsTimesInMicroseconds) {
  FlightRecorder recorder("test");
  recorder.begin(barrier_of(0), Where::current());
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  recorder.end(FlightRecord::State::finished);
  std::ostringstream out;
  recorder.write_json(out, 1, 4, "none");
  const auto flight = nlohmann::json::parse(out.str());
  EXPECT_EQ(flight["rank"], 1);
  EXPECT_EQ(flight["world_size"], 4);
  EXPECT_EQ(flight["failure"], "none");
  const auto& operation = flight["operations"].at(0);
  EXPECT_EQ(operation["call"], "barrier()");
  EXPECT_GE(operation["took_us"], 19'000);
  EXPECT_LE(operation["took_us"], 10'000'000);
}

TEST(FlightRecorderTest, AFailureMayHoldAnyBytes) {
  std::ostringstream out;
  FlightRecorder("test").write_json(out, 0, 1, "got \xff\x1b");
  EXPECT_EQ(nlohmann::json::parse(out.str())["failure"], "got \uFFFD\x1b");
}

// A reader sees the previous record or the new one, never a mixture. No other file stays.
TEST(FlightRecorderTest, ARecordIsReplacedAsAWhole) {
  const std::filesystem::path folder =
      std::filesystem::path(::testing::TempDir()) / "flight_recorder_whole";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directory(folder);
  setenv("RINGRAD_FLIGHT_DIR", folder.c_str(), 1);
  FlightRecorder recorder("test");
  for (std::size_t i = 0; i < FlightRecorder::kRecords; ++i) {
    recorder.begin(barrier_of(0), Where::current());
    recorder.end(FlightRecord::State::finished);
  }
  recorder.dump(0, 1, "first");
  const std::filesystem::path path = folder / "flight_test_rank0.json";
  const std::ifstream opened_before(path);
  std::jthread writer([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) recorder.dump(0, 1, "next");
  });
  for (int i = 0; i < 50; ++i) {
    const auto flight = nlohmann::json::parse(std::ifstream(path));
    EXPECT_EQ(flight["operations"].size(), FlightRecorder::kRecords);
  }
  writer.request_stop();
  writer.join();
  unsetenv("RINGRAD_FLIGHT_DIR");
  std::ostringstream before;
  before << opened_before.rdbuf();
  EXPECT_EQ(nlohmann::json::parse(before.str())["failure"], "first");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
  EXPECT_EQ(std::filesystem::status(path).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

TEST(FlightRecorderTest, EveryCallOfACommunicatorIsRecorded) {
  run_ranks(2, [](Communicator& comm) {
    const Tensor x = ones({4});
    comm.all_reduce(x);
    comm.barrier();
    if (comm.rank() == 0)
      comm.send(x, 1);
    else
      comm.recv(x, 0);
    std::ostringstream calls;
    for (const FlightRecord& record : comm.flight().records())
      calls << record.call << ' ' << name(record.state) << '\n';
    EXPECT_EQ(calls.str(), std::string("all_reduce(sum, float32, 4 elements) finished\n"
                                       "barrier() finished\n") +
                               (comm.rank() == 0 ? "send(float32, 4 elements, to 1) finished\n"
                                                 : "recv(float32, 4 elements, from 0) finished\n"));
  });
}

// The groups of a host have such names: "mpi0.by_host/host1".
TEST(FlightRecorderTest, AGroupsNameMayHaveSlashes) {
  const std::filesystem::path folder =
      std::filesystem::path(::testing::TempDir()) / "flight_recorder_test_names";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directory(folder);
  setenv("RINGRAD_FLIGHT_DIR", folder.c_str(), 1);
  FlightRecorder("all.by_host/host1").dump(0, 2, "none");
  FlightRecorder("all.by_host%2Fhost1").dump(0, 2, "none");
  unsetenv("RINGRAD_FLIGHT_DIR");
  EXPECT_TRUE(std::filesystem::exists(folder / "flight_all.by_host%2Fhost1_rank0.json"));
  EXPECT_TRUE(std::filesystem::exists(folder / "flight_all.by_host%252Fhost1_rank0.json"));
}

TEST(FlightRecorderTest, AFolderThatCannotHoldRecordsIsSaidAtTheStart) {
  const std::filesystem::path folder =
      std::filesystem::path(::testing::TempDir()) / "flight_recorder_test_start";
  std::filesystem::remove_all(folder);
  const auto refuses = [](const std::filesystem::path& path, const std::string& why) {
    setenv("RINGRAD_FLIGHT_DIR", path.c_str(), 1);
    bool is_reached = false;
    expect_throws<ValueError>([&] { run_ranks(2, [&](Communicator&) { is_reached = true; }); },
                              "RINGRAD_FLIGHT_DIR: it must name a folder that can be written to; "
                              "got " +
                                  why + " from \"" + path.string() + '"');
    EXPECT_FALSE(is_reached);
  };
  refuses(folder, "No such file or directory");
  std::filesystem::create_directory(folder);
  std::ofstream(folder / "file") << "no folder";
  refuses(folder / "file", "Not a directory");
  refuses(folder / "file" / "below", "Not a directory");
  setenv("RINGRAD_FLIGHT_DIR", folder.c_str(), 1);
  run_ranks(2, [&](Communicator& comm) {
    comm.barrier();
    if (comm.rank() == 0) std::filesystem::remove_all(folder);
    comm.barrier();
    comm.split(0)->barrier();  // a folder that goes later ends no job
  });
  setenv("RINGRAD_FLIGHT_DIR", "", 1);
  run_ranks(2, [](Communicator& comm) { comm.barrier(); });
  unsetenv("RINGRAD_FLIGHT_DIR");
}

// Every rank leaves its record, and tools/flight_report finds the rank whose call differs.
TEST(FlightRecorderTest, AFailureLeavesTheRecordsOfAllRanks) {
  const std::filesystem::path folder =
      std::filesystem::path(::testing::TempDir()) / "flight_recorder_test";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directory(folder);
  setenv("RINGRAD_FLIGHT_DIR", folder.c_str(), 1);
  expect_throws<CollectiveError>(
      [] {
        run_ranks(3, [](Communicator& comm) {
          comm.barrier();
          const Tensor x = ones({comm.rank() == 1 ? 5 : 4});
          comm.all_reduce(x);
        });
      },
      "all ranks must make the same call");
  unsetenv("RINGRAD_FLIGHT_DIR");
  int num_files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const auto flight = nlohmann::json::parse(std::ifstream(entry.path()));
    EXPECT_EQ(flight["operations"].size(), 2u);
    EXPECT_EQ(flight["operations"][1]["state"], "failed");
    ++num_files;
  }
  EXPECT_EQ(num_files, 3);

  const std::string command = "tools/flight_report " + folder.string();
  std::FILE* report = popen(command.c_str(), "r");
  std::string text(10'000, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), report));
  EXPECT_EQ(pclose(report), 0);
  EXPECT_NE(
      text.find("The first operation that differs is #2: all_reduce(sum, float32, 4 elements) by "
                "ranks 0, 2"),
      std::string::npos)
      << text;
  EXPECT_NE(text.find("Look at rank 1 first."), std::string::npos) << text;
}

}  // namespace
}  // namespace ringrad
