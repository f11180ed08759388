#include "federated/weights/base_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/base/file_system.h"
#include "engine/io/safetensors.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_folder.h"

namespace rivulet {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::StatusIs;

class BaseStoreTest : public ::testing::Test {
 protected:
  std::shared_ptr<const Base> BaseOf(float value) {
    const std::vector<float> values(64, value);
    const std::string path = folder_.path() + fmt::format("/{}.safetensors", value);
    EXPECT_OK(WriteFileAtomically(
        FileSystem::Default(), path,
        *SerializeSafetensors(
            std::vector<SafetensorsEntry>{{"w", DType::kFloat32, Shape{64}, std::as_bytes(std::span(values))}}, {})));
    return *Base::Open(path);
  }
  // What a coordinator sends of `base`, in two pieces. `froms_` receives where each fetch began.
  BaseStore::Download From(std::shared_ptr<const Base> base) {
    return {[this, base](const Digest&, int64_t, int64_t from, const auto& sink) -> Status {
              froms_.push_back(from);
              if (from > base->travel_bytes()) return OutOfRange("offset {}", from);
              std::vector<std::byte> bytes(static_cast<size_t>(base->travel_bytes() - from));
              RIVULET_RETURN_IF_ERROR(base->ReadTravelling(from, bytes));
              const size_t half = bytes.size() / 2;
              RIVULET_RETURN_IF_ERROR(sink(std::span(bytes).first(half)));
              if (lost_) return Unavailable("the connection is lost");
              return sink(std::span(bytes).subspan(half));
            },
            [](int64_t) { return true; }};
  }
  BaseStore Store(int64_t megabytes = 1) {
    return BaseStore({.folder = folder_.path() + "/kept",
                      .megabytes = megabytes,
                      .note = [this](const std::string& sentence) { notes_.push_back(sentence); }});
  }
  std::string Kept(const Base& base, const char* end = ".safetensors") {
    return folder_.path() + "/kept/" + base.digest().Hex() + end;
  }

  testing::TempFolder folder_;
  std::vector<int64_t> froms_;
  std::vector<std::string> notes_;
  bool lost_ = false;
};

TEST_F(BaseStoreTest, Of_DownloadsOnce_AndAnotherProcessFindsIt) {
  const auto base = BaseOf(1);
  BaseStore store = Store(), other = Store();
  ASSERT_OK_AND_ASSIGN(const auto first, store.Of(base->digest(), 4096, From(base)));
  ASSERT_OK_AND_ASSIGN(const auto second, store.Of(base->digest(), 4096, From(base)));
  EXPECT_EQ(first, second);
  ASSERT_OK_AND_ASSIGN(const auto third, other.Of(base->digest(), 4096, {}));
  EXPECT_EQ(third->digest(), base->digest());
  EXPECT_THAT(froms_, ElementsAre(0));
}

// Property: a download holds up nobody who wants another base.
TEST_F(BaseStoreTest, Of_DuringADownload_OtherBasesAreFoundAndGiven) {
  const auto base = BaseOf(1), other = BaseOf(2), given = BaseOf(3);
  BaseStore store = Store();
  BaseStore::Download download = From(base);
  int calls = 0;
  const auto fetch = std::exchange(download.fetch, nullptr);
  download.fetch = [&](const Digest& digest, int64_t most, int64_t from, const auto& sink) -> Status {
    ++calls;
    store.Give(given);
    EXPECT_OK(store.Of(given->digest(), 4096, {}).status());
    EXPECT_OK(store.Of(other->digest(), 4096, From(other)).status());
    return fetch(digest, most, from, sink);
  };
  ASSERT_OK(store.Of(base->digest(), 4096, download).status());
  EXPECT_EQ(calls, 1);
}

TEST_F(BaseStoreTest, Of_ManyThreads_DownloadOnce) {
  const auto base = BaseOf(1);
  BaseStore store = Store();
  std::vector<std::thread> threads;
  std::array<std::shared_ptr<const Base>, 4> found;
  for (auto& mine : found) threads.emplace_back([&] { mine = *store.Of(base->digest(), 4096, From(base)); });
  for (std::thread& thread : threads) thread.join();
  for (const auto& each : found) EXPECT_EQ(each, found[0]);
  EXPECT_THAT(froms_, ElementsAre(0));
}

// A tensor large enough to be worth a copy, behind a short one that puts it at an odd place.
class OddBaseTest : public BaseStoreTest {
 protected:
  void SetUp() override {
    const std::string path = folder_.path() + "/odd.safetensors";
    const std::vector<float> shorter(3, 1), longer(BaseStore::kWorthACopy / 4, 0.5F);
    const SafetensorsEntry entries[] = {
        {"first", DType::kFloat32, Shape{std::ssize(shorter)}, std::as_bytes(std::span(shorter))},
        {"w", DType::kFloat32, Shape{std::ssize(longer)}, std::as_bytes(std::span(longer))}};
    ASSERT_OK(WriteFileAtomically(FileSystem::Default(), path, *SerializeSafetensors(entries, {})));
    odd_ = *Base::Open(path);
    ASSERT_FALSE(IsAligned(*odd_));
  }
  static bool IsAligned(const Base& base) {
    return reinterpret_cast<uintptr_t>(base.Mapped(*base.Find("w"))) % 64 == 0;
  }
  std::shared_ptr<const Base> odd_;
};

TEST_F(OddBaseTest, Aligned_MakesOneCopyAndSaysItsSize) {
  const auto copy = Store(8).Aligned(odd_), again = Store(8).Aligned(odd_);
  EXPECT_TRUE(IsAligned(*copy) && IsAligned(*again));
  EXPECT_EQ(copy->digest(), odd_->digest());
  EXPECT_EQ(copy->path(), Kept(*odd_));
  ASSERT_EQ(notes_.size(), 1U);
  EXPECT_THAT(notes_[0], HasSubstr(fmt::format("has {} bytes", odd_->travel_bytes())));
  EXPECT_EQ(Store(8).Aligned(copy), copy);
}

TEST_F(OddBaseTest, Aligned_DamagedCopy_IsMadeAgain) {
  (void)Store(8).Aligned(odd_);
  ASSERT_OK(WriteFileAtomically(FileSystem::Default(), Kept(*odd_), "damaged"));
  EXPECT_EQ(Store(8).Aligned(odd_)->digest(), odd_->digest());
}

TEST_F(OddBaseTest, Aligned_NoRoomForACopy_IsTheBaseItself) {
  EXPECT_EQ(Store(1).Aligned(odd_), odd_);
  ASSERT_EQ(notes_.size(), 1U);
  EXPECT_THAT(notes_[0], HasSubstr("raise --base-megabytes"));
  ASSERT_OK(WriteFileAtomically(FileSystem::Default(), folder_.path() + "/kept/file", ""));
  BaseStore nowhere({.folder = folder_.path() + "/kept/file"});
  EXPECT_EQ(nowhere.Aligned(odd_), odd_);
}

TEST_F(OddBaseTest, CopyOfAKilledProcess_IsRemovedAndOneUnderWayIsNot) {
  const std::string end = ".safetensors.tmp-0123456789abcdef", other(64, 'a'), third(64, 'b');
  std::filesystem::create_directories(folder_.path() + "/kept");
  const auto at = [&](const std::string& name) { return folder_.path() + "/kept/" + name; };
  const std::string own = Kept(*odd_, end.c_str()), left = at(other + end), under_way = at(third + end),
                    foreign = at("notes.txt.tmp-0123456789abcdef");
  for (const std::string& path : {own, left, under_way, foreign}) std::ofstream(path) << "half";
  ASSERT_OK_AND_ASSIGN(const auto lock, FileLock::Acquire(at(third + ".lock")));
  EXPECT_TRUE(IsAligned(*Store(8).Aligned(odd_)));
  EXPECT_FALSE(std::filesystem::exists(own));
  EXPECT_FALSE(std::filesystem::exists(left));
  EXPECT_TRUE(std::filesystem::exists(under_way));
  EXPECT_TRUE(std::filesystem::exists(foreign));
  EXPECT_THAT(notes_, ::testing::Contains(HasSubstr("an unfinished copy, was removed")).Times(2));
}

TEST_F(OddBaseTest, Given_IsUsedByItsAlignedCopy) {
  BaseStore store = Store(8);
  ASSERT_OK(store.Give(odd_->digest(), odd_->path()));
  ASSERT_OK_AND_ASSIGN(const auto found, store.Of(odd_->digest(), 4 << 20, {}));
  EXPECT_TRUE(IsAligned(*found));
}

TEST_F(BaseStoreTest, Of_LostConnection_ResumesWhereItWas) {
  const auto base = BaseOf(1);
  lost_ = true;
  EXPECT_THAT(Store().Of(base->digest(), 4096, From(base)),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("lost")));
  lost_ = false;
  ASSERT_OK(Store().Of(base->digest(), 4096, From(base)).status());
  EXPECT_THAT(froms_, ElementsAre(0, base->travel_bytes() / 2));
}

TEST_F(BaseStoreTest, Of_PartThatIsNoneOfIt_IsFetchedAnew) {
  const auto base = BaseOf(1);
  ASSERT_OK(FileSystem::Default().CreateFolders(folder_.path() + "/kept"));
  ASSERT_OK(WriteFileAtomically(FileSystem::Default(), Kept(*base, ".part"), std::string(10'000, 'x')));
  ASSERT_OK(Store().Of(base->digest(), 4096, From(base)).status());
  EXPECT_THAT(froms_, ElementsAre(10'000, 0));
}

TEST_F(BaseStoreTest, Of_DamagedFile_IsFetchedAgain) {
  const auto base = BaseOf(1);
  ASSERT_OK(Store().Of(base->digest(), 4096, From(base)).status());
  ASSERT_OK_AND_ASSIGN(std::string bytes, FileSystem::Default().ReadAll(Kept(*base)));
  bytes.back() ^= 1;
  ASSERT_OK(WriteFileAtomically(FileSystem::Default(), Kept(*base), bytes));
  notes_.clear();
  ASSERT_OK(Store().Of(base->digest(), 4096, From(base)).status());
  ASSERT_FALSE(notes_.empty());
  EXPECT_THAT(notes_[0], HasSubstr("it is replaced"));
}

TEST_F(BaseStoreTest, Of_AnotherBaseCame_IsRefusedAndNotKept) {
  const auto base = BaseOf(1), other = BaseOf(2);
  EXPECT_THAT(Store().Of(base->digest(), 4096, From(other)),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr(other->digest().Hex())));
  EXPECT_FALSE(std::filesystem::exists(Kept(*base)));
  EXPECT_FALSE(std::filesystem::exists(Kept(*base, ".part")));
}

TEST_F(BaseStoreTest, Of_CoordinatorThatDoesNotSendIt_SaysHowToGiveIt) {
  const auto base = BaseOf(1);
  const BaseStore::Download refuses = {
      [](const Digest&, int64_t, int64_t, const auto&) { return FailedPrecondition("serve_base is false"); }};
  for (const BaseStore::Download& download : {refuses, BaseStore::Download()}) {
    EXPECT_THAT(Store().Of(base->digest(), 4096, download),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         HasSubstr(fmt::format("--base {}=FILE", base->digest().Hex()))));
  }
}

TEST_F(BaseStoreTest, Of_NoRoom_RemovesTheOneThatWasNotUsedForTheLongestTime) {
  const auto oldest = BaseOf(1), used = BaseOf(2), next = BaseOf(3);
  for (const auto& base : {oldest, used}) ASSERT_OK(Store().Of(base->digest(), 4096, From(base)).status());
  const auto now = std::filesystem::file_time_type::clock::now();
  std::filesystem::last_write_time(Kept(*oldest), now - std::chrono::hours(2));
  std::filesystem::last_write_time(Kept(*used), now - std::chrono::hours(1));
  ASSERT_OK(Store().Of(next->digest(), 1'000'000 - used->travel_bytes(), From(next)).status());
  EXPECT_FALSE(std::filesystem::exists(Kept(*oldest)));
  EXPECT_TRUE(std::filesystem::exists(Kept(*used)));
  EXPECT_THAT(Store().Of(oldest->digest(), 1'000'001, From(oldest)),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("raise --base-megabytes")));
}

TEST_F(BaseStoreTest, Give_ComparesTheCopyAtOnce) {
  const auto base = BaseOf(1), other = BaseOf(2);
  BaseStore store = Store();
  ASSERT_OK(store.Give(base->digest(), base->path()));
  ASSERT_OK_AND_ASSIGN(const auto found, store.Of(base->digest(), 1, {}));
  EXPECT_EQ(found->path(), base->path());
  EXPECT_THAT(store.Give(base->digest(), other->path()),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(base->digest().Hex())));
  EXPECT_FALSE(std::filesystem::exists(folder_.path() + "/kept"));
}

}  // namespace
}  // namespace rivulet
