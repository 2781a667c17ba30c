// The files that a save leaves in the folder, and folders whose files have been changed.

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <fstream>
#include <system_error>
#include <thread>

#include "ringrad/nn/checkpoint/generation.h"
#include "ringrad/parallel/comm/host/ranks.h"
#include "ringrad/parallel/train/checkpoint/sharded_checkpoint.h"
#include "ringrad/tests/nn/checkpoint/folder.h"
#include "ringrad/tests/parallel/train/checkpoint/saved_rows.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_step;
using testing::expect_throws;
using testing::Folder;
using testing::names_in;
using testing::Rows;
using testing::save;

// The folder's index; empty if it has none.
std::filesystem::path index_in(const std::filesystem::path& folder) {
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder, none))
    if (entry.path().string().ends_with("index.json")) return entry.path();
  return {};
}

void expect_refused(const std::filesystem::path& folder, std::string_view message) {
  run_ranks(2, [&](Communicator& comm) {
    Rows job(comm);
    expect_throws<DataError>([&] { job.checkpoint.load(folder); }, message);
    job.expect(0);
    comm.barrier();  // the group still works
  });
}

TEST(ShardedCheckpointFilesTest, ASaveLeavesItsFilesAndNoOthers) {
  const Folder folder;
  for (const int step : {1, 2, 3}) {
    save(folder / "run", step);
    const auto names = names_in(folder / "run");
    ASSERT_EQ(names.size(), 3u);
    EXPECT_TRUE(names[0].ends_with(".0.safetensors"));
    EXPECT_TRUE(names[1].ends_with(".1.safetensors"));
    EXPECT_TRUE(names[2].ends_with(".index.json"));
  }
  std::ofstream(folder / "run" / "notes.txt") << "the user's own";
  save(folder / "run", 4);
  EXPECT_EQ(names_in(folder / "run").size(), 4u);
}

TEST(ShardedCheckpointFilesTest, WithoutAnIndexThereIsNoCheckpoint) {
  const Folder folder;
  save(folder / "run", 1);
  std::filesystem::remove(index_in(folder / "run"));
  run_ranks(2, [&](Communicator& comm) {
    Rows job(comm);
    EXPECT_FALSE(job.checkpoint.load(folder / "run"));
    EXPECT_FALSE(job.checkpoint.load(folder / "absent"));
  });
}

TEST(ShardedCheckpointFilesTest, WhatIsNoFolderIsNotTakenForNone) {
  const Folder folder;
  testing::write_bytes(folder / "file", "no folder");
  std::filesystem::create_symlink("none", folder / "link");
  expect_refused(folder / "file", "file must be a folder that can be read; got Not a directory");
  expect_refused(folder / "link", "link must be a folder that can be read; got No such file");
}

TEST(ShardedCheckpointFilesTest, FilesThatAreNotTheIndexsAreRefused) {
  const Folder folder;
  save(folder / "old", 1);
  save(folder / "run", 2);
  const auto file = [&](const std::string& of, std::size_t i) {
    return folder / of / names_in(folder / of)[i];
  };
  const std::filesystem::path first = file("run", 0), second = file("run", 1),
                              aside = folder / "aside";
  std::filesystem::rename(second, aside);
  expect_refused(folder / "run", "that the index means; got none");
  std::filesystem::copy(file("old", 1), second);
  expect_refused(folder / "run", "that the index means; got another of");
  std::filesystem::remove(second);
  std::filesystem::rename(first, second);  // swapped
  std::filesystem::rename(aside, first);
  expect_refused(folder / "run", "that the index means; got another of");
  std::filesystem::rename(first, aside);
  std::filesystem::rename(second, first);
  std::filesystem::rename(aside, second);
  expect_step(folder / "run", 2);
  std::fstream damaged(second, std::ios::in | std::ios::out | std::ios::binary);
  damaged.seekp(-1, std::ios::end);
  damaged.put('x');
  damaged.close();
  expect_refused(folder / "run", "rank 1: load: ");
  std::ofstream(index_in(folder / "run")) << "{}";
  expect_refused(folder / "run", "its index must have its checksum at the front");
}

TEST(ShardedCheckpointFilesTest, AFullDiskLeavesTheCheckpointBefore) {
  const Folder folder;
  save(folder / "run", 1);
  const auto before = names_in(folder / "run");
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
  rlimit small = limit;
  small.rlim_cur = 100;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  run_ranks(2, [&](Communicator& comm) {
    Rows job(comm);
    job.go_to(2);
    expect_throws<DataError>([&] { job.checkpoint.save(folder / "run"); }, "rank 0: save: ");
    job.checkpoint.save_async(folder / "run");
    expect_throws<DataError>([&] { job.checkpoint.wait(); }, "File too large");
    job.checkpoint.wait();  // the save has ended
    comm.barrier();
  });
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(names_in(folder / "run"), before);
  expect_step(folder / "run", 1);
}

TEST(ShardedCheckpointFilesTest, AnAsynchronousSaveHasTheStateOfItsCall) {
  const Folder folder;
  run_ranks(2, [&](Communicator& comm) {
    Rows job(comm);
    for (const int step : {1, 2, 3}) {
      job.go_to(step);
      job.checkpoint.save_async(folder / "run");  // waits for the previous save
      job.go_to(50 + step);
    }
    job.checkpoint.wait();
    Rows other(comm);
    ASSERT_TRUE(other.checkpoint.load(folder / "run"));
    other.expect(3);
    EXPECT_EQ(job.step, 53);
    job.checkpoint.save_async(folder / "run");
  });  // the destructor waits
  expect_step(folder / "run", 53);
  EXPECT_EQ(names_in(folder / "run").size(), 3u);
}

// No rank calls wait(): the index appears by itself, while steps go on.
TEST(ShardedCheckpointFilesTest, AnAsynchronousSaveIsCompleteWithoutFurtherCalls) {
  const Folder folder;
  run_ranks(2, [&](Communicator& comm) {
    Rows job(comm);
    job.go_to(7);
    job.checkpoint.save_async(folder / "run");
    while (index_in(folder / "run").empty()) std::this_thread::yield();
  });
  expect_step(folder / "run", 7);
}

void expect_save_refused(const std::filesystem::path& folder, std::string_view message) {
  run_ranks(2, [&](Communicator& comm) {
    Rows job(comm);
    job.go_to(9);
    expect_throws<DataError>([&] { job.checkpoint.save(folder); }, message);
    comm.barrier();  // the group still works
  });
}

// Gives the folder's checkpoint another generation. Earlier versions of the library called every
// index "index.json".
void put_index(const std::filesystem::path& folder, std::int64_t generation, bool is_old) {
  const auto before = index_in(folder);
  CheckpointIndex index = parse_checkpoint_index(testing::bytes_of(before));
  index.generation = generation;
  std::filesystem::remove(before);
  const std::string name = nn::generation_digits(generation) + ".index.json";
  std::ofstream(folder / (is_old ? "index.json" : name)) << index.text();
}

TEST(ShardedCheckpointFilesTest, AnEarlierGenerationReplacesNothing) {
  for (const bool is_old : {false, true}) {
    const Folder folder;
    save(folder / "run", 1);
    put_index(folder / "run", nn::run_generation() + 1, is_old);
    expect_save_refused(folder / "run", "must be of this run or an earlier one; got generation");
    expect_step(folder / "run", 1);
    // This process has loaded the checkpoint, and so has a later generation still.
    save(folder / "run", 3);
    expect_step(folder / "run", 3);
    EXPECT_EQ(names_in(folder / "run").size(), 3u);
  }
}

TEST(ShardedCheckpointFilesTest, ACheckpointOfAnEarlierVersionIsReadAndReplaced) {
  const Folder folder;
  save(folder / "run", 1);
  put_index(folder / "run", nn::run_generation(), true);
  expect_step(folder / "run", 1);
  save(folder / "run", 2);
  EXPECT_EQ(names_in(folder / "run").size(), 3u);
  EXPECT_FALSE(std::filesystem::exists(folder / "run" / "index.json"));
  expect_step(folder / "run", 2);
}

TEST(ShardedCheckpointFilesTest, TheGreatestGenerationCounts) {
  const Folder folder;
  save(folder / "run", 1);
  const std::int64_t generation = nn::run_generation();
  const std::string name = nn::generation_digits(generation - 1) + ".index.json";
  std::ofstream(folder / "run" / name) << "of an earlier run that was stopped";
  expect_step(folder / "run", 1);
  std::ofstream(folder / "run" / "index.json") << "{}";  // may be of a later run
  expect_refused(folder / "run", "its index must have its checksum at the front");
  std::filesystem::remove(folder / "run" / "index.json");
  save(folder / "run", 2);
  EXPECT_EQ(names_in(folder / "run").size(), 3u);
  std::filesystem::rename(index_in(folder / "run"),
                          folder / "run" / (nn::generation_digits(generation + 1) + ".index.json"));
  expect_refused(folder / "run", "must have the name of its generation");
}

// It is in the folder, and yet there is nothing to read.
TEST(ShardedCheckpointFilesTest, AnIndexThatIsALinkToNothingIsRefused) {
  const Folder folder;
  save(folder / "run", 1);
  const std::int64_t generation = nn::run_generation();
  for (const std::string& name :
       {std::string("index.json"), nn::generation_digits(generation + 1) + ".index.json"}) {
    SCOPED_TRACE(name);
    std::filesystem::create_symlink("none", folder / "run" / name);
    expect_refused(folder / "run", name + " must be a file; got a link that leads nowhere");
    expect_save_refused(folder / "run", name + " must be a file; got a link that leads nowhere");
    std::filesystem::remove(folder / "run" / name);
    expect_step(folder / "run", 1);
  }
}

// A link to an index is as good as the index.
TEST(ShardedCheckpointFilesTest, AnIndexMayBeALink) {
  const Folder folder;
  save(folder / "run", 1);
  const auto index_file = index_in(folder / "run");
  std::filesystem::rename(index_file, folder / "elsewhere");
  std::filesystem::create_symlink(folder / "elsewhere", index_file);
  expect_step(folder / "run", 1);
}

// The index may be of a later generation, or of a later version of this format.
TEST(ShardedCheckpointFilesTest, AnIndexThatCannotBeReadIsNotReplaced) {
  const Folder folder;
  save(folder / "run", 1);
  const auto index_file = index_in(folder / "run");
  const std::string text = testing::bytes_of(index_file);
  for (const std::string& damaged : {std::string("{}"), std::string(), text.substr(0, 100)}) {
    std::ofstream(index_file) << damaged;
    expect_save_refused(folder / "run", "index.json must be readable, or removed");
    EXPECT_EQ(testing::bytes_of(index_file), damaged);
  }
  std::ofstream(index_file) << text;
  expect_step(folder / "run", 1);
  std::filesystem::remove(index_file);
  save(folder / "run", 2);
  expect_step(folder / "run", 2);
  EXPECT_EQ(names_in(folder / "run").size(), 3u);
}

// The last test: from here on this process has the last generation.
TEST(ShardedCheckpointFilesTest, ACheckpointOfTheLastGenerationIsReadAndReplaced) {
  for (const bool is_old : {true, false}) {
    const Folder folder;
    save(folder / "run", 1);
    put_index(folder / "run", nn::kLastGeneration, is_old);
    expect_step(folder / "run", 1);
    save(folder / "run", 2);
    expect_step(folder / "run", 2);
    EXPECT_EQ(names_in(folder / "run").size(), 3u);
  }
}

}  // namespace
}  // namespace ringrad
