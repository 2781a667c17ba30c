#include "ringrad/data/image/image_folder.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ringrad/core/view.h"
#include "ringrad/data/distributed_sampler.h"
#include "ringrad/data/loader.h"
#include "ringrad/tests/data/idx_file.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

namespace fs = std::filesystem;

using testing::expect_same_bits;
using testing::expect_throws;
using testing::Random;
using testing::test_folder;

// Writes an image whose bytes are a function of its path, and returns it.
Tensor add(const fs::path& path, const Shape& shape = {3, 4, 6}) {
  fs::create_directories(path.parent_path());
  const Tensor image = Random(std::hash<std::string>()(path.string())).tensor(shape, DType::uint8);
  write_png(path, image);
  return image;
}

// torchvision lists, for each class, sorted(os.walk(class)) and in it sorted(names): expected is
// what Python prints for the same tree.
TEST(ImageFolderTest, ListsClassesAndFilesInTheOrderOfTorchvision) {
  const fs::path root = test_folder() / "pets";
  for (const char* name :
       {"dog/10.png", "dog/9.PNG", "Zebra/b.png", "Zebra/a/z.png", "Zebra/a-b/c.png",
        "Zebra/a/x/y.png", "Zebra/a.png", "cat/x.jpeg", "cat/x.JPG"})
    add(root / name);
  testing::write_file(root / "cat" / "notes.txt", {1, 2});
  testing::write_file(root / "loose.png", {1, 2});
  const ImageFolder folder(root);
  EXPECT_EQ(folder.classes(), (std::vector<std::string>{"Zebra", "cat", "dog"}));
  std::vector<std::string> files;
  std::vector<std::int64_t> targets;
  for (const auto& [path, target] : folder.files()) {
    files.push_back(fs::relative(path, root).string());
    targets.push_back(target);
  }
  EXPECT_EQ(files, (std::vector<std::string>{"Zebra/a.png", "Zebra/b.png", "Zebra/a/z.png",
                                             "Zebra/a-b/c.png", "Zebra/a/x/y.png", "cat/x.JPG",
                                             "cat/x.jpeg", "dog/10.png", "dog/9.PNG"}));
  EXPECT_EQ(targets, (std::vector<std::int64_t>{0, 0, 0, 0, 0, 1, 1, 2, 2}));
}

TEST(ImageFolderTest, LoadsBatchesOnAnyNumberOfThreadsAndRanks) {
  const fs::path root = test_folder() / "set";
  std::vector<Tensor> images;
  for (int i = 0; i < 12; ++i)
    images.push_back(add(root / (i < 7 ? "a" : "b") / (std::string("0") + char('a' + i) + ".png")));
  const ImageFolder folder(root);
  ASSERT_EQ(folder.size(), 12);
  for (const int num_workers : {0, 3})
    for (const int rank : {0, 1}) {
      DistributedSampler sampler(folder.size(), {2, rank}, false);
      DataLoader loader(folder, sampler, {.batch_size = 3, .num_workers = num_workers});
      std::int64_t next = rank;
      for (const Batch& batch : loader) {
        ASSERT_EQ(batch.input().shape(), (Shape{3, 3, 4, 6}));
        for (int i = 0; i < 3; ++i, next += 2) {
          expect_same_bits(view::select(batch.input(), 0, i),
                           images[static_cast<std::size_t>(next)]);
          EXPECT_EQ(batch.target().to_vector<std::int64_t>()[static_cast<std::size_t>(i)],
                    next < 7 ? 0 : 1);
        }
      }
      EXPECT_EQ(next, 12 + rank);
    }
}

TEST(ImageFolderTest, PreparesImagesOfDifferentSizesAndChannels) {
  const fs::path root = test_folder() / "set";
  const Tensor gray = add(root / "a" / "1.png", {1, 8, 8});
  add(root / "a" / "2.png", {4, 5, 9});
  const std::int64_t both[] = {0, 1};
  expect_throws<ShapeError>([&] { ImageFolder(root).fetch(both); },
                            "must have one shape; got (3, 8, 8) for " +
                                (root / "a/1.png").string() + " and (3, 5, 9) for " +
                                (root / "a/2.png").string());
  const ImageFolder folder(root, {.image = {.channels = Channels::gray},
                                  .prepare = [](const Tensor& image, Where where) {
                                    return resize(image, {4, 4}, where);
                                  }});
  const Batch batch = folder.fetch(both);
  ASSERT_EQ(batch.input().shape(), (Shape{2, 1, 4, 4}));
  expect_same_bits(view::select(batch.input(), 0, 0), resize(gray, {4, 4}));
}

TEST(ImageFolderTest, RefusesFoldersThatAreNoDataSet) {
  const fs::path root = test_folder() / "set";
  expect_throws<DataError>([&] { ImageFolder{root}; }, "must be a folder that can be listed; got");
  fs::create_directories(root);
  testing::write_file(root / "loose.png", {1, 2});
  expect_throws<DataError>([&] { ImageFolder{root}; }, "must have a folder per class; got none");
  add(root / "a" / "1.png");
  fs::create_directories(root / "b");
  expect_throws<DataError>([&] { ImageFolder{root}; }, "b must have an image");
  testing::write_file(root / "b" / "1.WebP", {1, 2});
  expect_throws<DataError>([&] { ImageFolder{root}; }, "1.WebP must be a PNG or JPEG file");
  fs::remove_all(root / "b");
  testing::write_file(root / "a" / "2.png", {1, 2});
  const std::int64_t second[] = {1}, third[] = {2};
  expect_throws<DataError>([&] { ImageFolder(root).fetch(second); }, "2.png must begin as a PNG");
  expect_throws<IndexError>([&] { ImageFolder(root).fetch(third); }, "must be in [0, 2); got 2");
  fs::create_directory_symlink(root / "a", root / "a" / "circle");
  expect_throws<DataError>([&] { ImageFolder{root}; }, "must lie in at most 32 folders");
}

}  // namespace
}  // namespace ringrad
