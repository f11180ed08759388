#include "engine/io/mapped_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_folder.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::HasSubstr;

class MappedFileTest : public testing::FolderTest {};

std::span<std::byte> MutableBytes(std::string& text) {
  return std::as_writable_bytes(std::span(text.data(), text.size()));
}

TEST_F(MappedFileTest, Copy_GivesTheFilesBytes) {
  const auto file = MappedFile::Open(Write("f", "0123456789"));
  ASSERT_OK(file);
  EXPECT_EQ((*file)->size(), 10u);
  std::string text(4, ' ');
  ASSERT_TRUE((*file)->Copy(3, MutableBytes(text)));
  EXPECT_EQ(text, "3456");
  std::string a(2, ' '), b(3, ' '), c(1, ' ');
  ASSERT_TRUE((*file)->Copy(1, MutableBytes(a), MutableBytes(b), MutableBytes(c)));
  EXPECT_EQ(a + "|" + b + "|" + c, "12|345|6");
}

TEST_F(MappedFileTest, EmptyFile_HasNoBytes) {
  const auto file = MappedFile::Open(Write("f", ""));
  ASSERT_OK(file);
  EXPECT_EQ((*file)->size(), 0u);
  EXPECT_TRUE((*file)->Copy(0, {}));
}

TEST_F(MappedFileTest, FileThatShrinks_IsFalseAndNotTheEnd) {
  const std::string path = Write("f", std::string(100000, 'x'));
  const auto file = MappedFile::Open(path);
  ASSERT_OK(file);
  std::string text(5000, ' ');
  ASSERT_TRUE((*file)->Copy(90000, MutableBytes(text)));
  ASSERT_EQ(truncate(path.c_str(), 10000), 0);
  EXPECT_FALSE((*file)->Copy(90000, MutableBytes(text)));
  EXPECT_EQ((*file)->CurrentSize(), 10000u);
  // The guard is gone and comes back: reading goes on, and faults again where it must.
  text.resize(100);
  EXPECT_TRUE((*file)->Copy(0, MutableBytes(text)));
  EXPECT_EQ(text, std::string(100, 'x'));
  EXPECT_FALSE((*file)->Copy(50000, MutableBytes(text)));
}

// Property: a fault in one thread ends that thread's copy alone.
TEST_F(MappedFileTest, FileThatShrinksUnderManyThreads_IsFalseInEach) {
  const std::string path = Write("f", std::string(1 << 20, 'x'));
  const auto file = MappedFile::Open(path);
  ASSERT_OK(file);
  std::vector<std::thread> threads;
  std::array<bool, 4> faulted{};
  for (size_t t = 0; t < faulted.size(); ++t) {
    threads.emplace_back([&, t] {
      std::string text(1 << 20, ' ');
      while ((*file)->Copy(0, MutableBytes(text))) {
      }
      faulted[t] = true;
    });
  }
  ASSERT_EQ(truncate(path.c_str(), 4096), 0);
  for (std::thread& thread : threads) thread.join();
  for (const bool each : faulted) EXPECT_TRUE(each);
}

TEST_F(MappedFileTest, BusErrorElsewhere_StillEndsTheProcess) {
  const auto file = MappedFile::Open(Write("f", "x"));
  ASSERT_OK(file);
  EXPECT_DEATH(raise(SIGBUS), "");
}

TEST_F(MappedFileTest, WhatIsNoRegularFile_IsRefusedWithoutBlocking) {
  EXPECT_THAT(MappedFile::Open(folder_.path()).status().ToString(), HasSubstr("a folder, not a file"));
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  EXPECT_THAT(MappedFile::Open(Path("pipe")).status().ToString(), HasSubstr("a pipe cannot be read by position"));
  EXPECT_THAT(MappedFile::Open("/dev/null").status().ToString(), HasSubstr("a device cannot be read by position"));
  EXPECT_THAT(MappedFile::Open(Path("missing")), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(MappedFile::Open(Write("f", "x") + "/below"), StatusIs(absl::StatusCode::kNotFound));
  std::filesystem::create_symlink("circle", Path("circle"));
  EXPECT_THAT(MappedFile::Open(Path("circle")), StatusIs(absl::StatusCode::kInternal, HasSubstr("symbolic links")));
}

}  // namespace
}  // namespace rivulet
