#include "engine/io/checkpoint.h"

#include <unistd.h>

#include <filesystem>
#include <limits>

#include "tests/testing/forwarding_file_system.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_folder.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Stops as a power cut does, after a number of bytes: nothing that comes later happens. What was written before is
// kept, or, where it was not synced, lost.
class DyingFileSystem : public testing::ForwardingFileSystem {
 public:
  explicit DyingFileSystem(uint64_t bytes_left) : left_(bytes_left) {}
  bool dead() const { return dead_; }

  StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override {
    if (dead_) return Dead();
    RIVULET_ASSIGN_OR_RETURN(auto file, base_.Create(path));
    return std::make_unique<File>(*this, std::move(file));
  }
  Status Rename(const std::string& from, const std::string& to) override {
    return Spend(1) ? base_.Rename(from, to) : Dead();
  }
  Status SyncFolder(const std::string& folder) override { return Spend(1) ? base_.SyncFolder(folder) : Dead(); }
  Status Remove(const std::string& path) override { return Spend(1) ? base_.Remove(path) : Dead(); }

 private:
  class File : public WritableFile {
   public:
    File(DyingFileSystem& fs, std::unique_ptr<WritableFile> base) : fs_(fs), base_(std::move(base)) {}
    Status Append(std::span<const std::byte> bytes) override {
      const size_t kept = std::min<uint64_t>(bytes.size(), fs_.left_);
      RIVULET_RETURN_IF_ERROR(base_->Append(bytes.first(kept)));
      if (!fs_.Spend(bytes.size())) {
        base_->Close().IgnoreError();
        return fs_.Dead();
      }
      return absl::OkStatus();
    }
    Status Sync() override { return fs_.Spend(1) ? base_->Sync() : fs_.Dead(); }
    Status Close() override { return base_->Close(); }

   private:
    DyingFileSystem& fs_;
    std::unique_ptr<WritableFile> base_;
  };
  bool Spend(uint64_t cost) {
    dead_ = dead_ || cost > left_;
    left_ = dead_ ? 0 : left_ - cost;
    return !dead_;
  }
  static Status Dead() { return Internal("the power is cut"); }

  uint64_t left_;
  bool dead_ = false;
};

class CheckpointTest : public testing::FolderTest {
 protected:
  CheckpointTest() : FolderTest(testing::TempFolder::Place::kMemory) {}  // hundreds of syncs

  static std::vector<NamedTensorView> Tensors(Tensor& a, Tensor& b) {
    return {{"dense/kernel", a.view()}, {"b", b.view()}};
  }
  Status Save(FileSystem& fs, int64_t step, float value, int keep = 5) {
    Tensor a = Tensor::Of<float>({2}, {value, -value}), b = Tensor::Scalar<int64_t>(step);
    return CheckpointFolder(fs, checkpoints_, keep).Save(step, Tensors(a, b), {{"round", fmt::format("{}", step)}});
  }
  const std::string checkpoints_ = Path("checkpoints");
};

TEST_F(CheckpointTest, Latest_GivesWhatWasSavedLast) {
  CheckpointFolder folder(FileSystem::Default(), checkpoints_);
  EXPECT_THAT(folder.Latest().status(), StatusIs(absl::StatusCode::kNotFound, HasSubstr(checkpoints_)));
  std::filesystem::create_directories(checkpoints_);
  EXPECT_THAT(folder.Latest().status(), StatusIs(absl::StatusCode::kNotFound, EndsWith(" holds no checkpoint")));
  ASSERT_OK(Save(FileSystem::Default(), 9, 0.5f));
  ASSERT_OK(Save(FileSystem::Default(), 10, 1.5f));
  ASSERT_OK_AND_ASSIGN(const Checkpoint latest, folder.Latest());
  EXPECT_EQ(latest.step, 10);
  ASSERT_EQ(latest.tensors.size(), 2u);
  EXPECT_EQ(latest.tensors[0].first, "dense/kernel");
  EXPECT_THAT(latest.tensors[0].second.flat<float>(), ElementsAre(1.5f, -1.5f));
  EXPECT_EQ(latest.metadata.at("round"), "10");
  EXPECT_THAT(latest.damaged, IsEmpty());
  ASSERT_OK_AND_ASSIGN(const Checkpoint earlier, folder.Load(9));
  EXPECT_EQ(earlier.tensors[1].second.flat<int64_t>()[0], 9);
  EXPECT_THAT(folder.Load(8).status(), StatusIs(absl::StatusCode::kNotFound, HasSubstr("000000000008")));
}

TEST_F(CheckpointTest, MoreThanKept_TheOldestGo) {
  for (int64_t step = 1; step <= 5; ++step) ASSERT_OK(Save(FileSystem::Default(), step, 1, /*keep=*/2));
  EXPECT_THAT(CheckpointFolder(FileSystem::Default(), checkpoints_).Steps().value(), ElementsAre(4, 5));
}

// The one property: whatever Save has said OK to is there afterwards, and nothing else is taken for a checkpoint.
TEST_F(CheckpointTest, PowerCutAtAnyByte_LeavesTheOneBeforeOrTheNewOne) {
  uint64_t cuts = 0;
  for (bool finished = false; !finished; ++cuts) {
    std::filesystem::remove_all(checkpoints_);
    ASSERT_OK(Save(FileSystem::Default(), 1, 0.25f));
    DyingFileSystem dying(cuts);
    const Status saved = Save(dying, 2, 4.0f, /*keep=*/1);
    finished = !dying.dead();
    ASSERT_OK_AND_ASSIGN(const Checkpoint latest, CheckpointFolder(FileSystem::Default(), checkpoints_).Latest());
    ASSERT_TRUE(!saved.ok() || latest.step == 2) << cuts;
    ASSERT_EQ(latest.tensors[0].second.flat<float>()[0], latest.step == 1 ? 0.25f : 4.0f) << cuts;
    ASSERT_THAT(latest.damaged, IsEmpty()) << cuts;  // a part never has a checkpoint's name
  }
  EXPECT_GT(cuts, 250u);  // header and data were cut everywhere
  // What the last cut left is gone after the next Save.
  ASSERT_OK(Save(FileSystem::Default(), 3, 1, /*keep=*/1));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(checkpoints_), {}), 1);
}

TEST_F(CheckpointTest, AnyDamagedByte_IsToldAndTheOneBeforeIsGiven) {
  ASSERT_OK(Save(FileSystem::Default(), 1, 0.25f));
  ASSERT_OK(Save(FileSystem::Default(), 2, 4.0f));
  CheckpointFolder folder(FileSystem::Default(), checkpoints_);
  const std::string good = FileSystem::Default().ReadAll(folder.PathOf(2)).value();
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x11);
    ASSERT_OK(WriteFileAtomically(FileSystem::Default(), folder.PathOf(2), bad));
    ASSERT_OK_AND_ASSIGN(const Checkpoint latest, folder.Latest());
    // Some bytes of the header mean nothing: spaces, or a letter of a name.
    if (latest.step == 2) {
      ASSERT_EQ(latest.tensors[0].second.flat<float>()[0], 4.0f);
    } else {
      ASSERT_EQ(latest.damaged.size(), 1u);
    }
  }
  ASSERT_OK(WriteFileAtomically(FileSystem::Default(), folder.PathOf(2), good.substr(0, good.size() - 1)));
  EXPECT_EQ(folder.Latest()->step, 1);
  EXPECT_THAT(folder.Load(2).status(), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("000000000002")));
}

TEST_F(CheckpointTest, NamesAndSteps_AreChecked) {
  Tensor a = Tensor::Scalar<float>(1);
  CheckpointFolder folder(FileSystem::Default(), checkpoints_);
  EXPECT_THAT(folder.Save(-1, {}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("-1")));
  EXPECT_THAT(folder.Save(1, std::vector<NamedTensorView>{{"a", a.view()}, {"a", a.view()}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'a'")));
}

}  // namespace
}  // namespace rivulet
