#include "federated/transport/allow_list.h"

#include <thread>

#include "engine/base/mutex.h"
#include "tests/testing/forwarding_file_system.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_folder.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class AdmitsAll final : public CoordinatorApi {
 public:
  StatusOr<PollReply> Poll(const PollRequest&) override { return PollReply{}; }
  StatusOr<std::unique_ptr<ChunkReader>> Fetch(const Caller&, const BlobId&, int64_t) override {
    return NotFound("a blob");
  }
  StatusOr<std::unique_ptr<ChunkWriter>> Submit(const Caller&, const Submission&) override {
    return NotFound("a task");
  }
  Status Fail(const Caller&, const TaskFailure&) override { return absl::OkStatus(); }
};

class AdmissionTest : public testing::FolderTest {
 protected:
  void Write(const std::string& text) { ASSERT_OK(WriteFileAtomically(fs_, Path("clients.txt"), text)); }
  Status Open() {
    RIVULET_ASSIGN_OR_RETURN(admission_, AllowList::Open(api_, fs_, Path("clients.txt"),
                                                         [this](const std::string& told) { told_.push_back(told); }));
    return absl::OkStatus();
  }
  Status Poll(const std::string& name) { return admission_->Poll({.caller = {.name = name}}).status(); }

  FileSystem& fs_ = FileSystem::Default();
  AdmitsAll api_;
  std::vector<std::string> told_;
  std::unique_ptr<AllowList> admission_;
};

TEST_F(AdmissionTest, ExpectedName_IsPassedOnAndAnotherIsRefusedOnEveryCallAndShownOnce) {
  Write("# the study\nward 7\n\r\nhospital-a\r\n");
  ASSERT_OK(Open());
  EXPECT_OK(Poll("ward 7"));
  EXPECT_OK(Poll("hospital-a"));
  EXPECT_THAT(admission_->Fetch({.name = "hospital-a"}, {}, 0), StatusIs(absl::StatusCode::kNotFound));
  const auto refused = StatusIs(absl::StatusCode::kPermissionDenied,
                                HasSubstr("'mallory' is not expected here; ask the coordinator's operator"));
  EXPECT_THAT(Poll("mallory"), refused);
  EXPECT_THAT(admission_->Fetch({.name = "mallory"}, {}, 0), refused);
  EXPECT_THAT(admission_->Submit({.name = "mallory"}, {}), refused);
  EXPECT_THAT(admission_->Fail({.name = "mallory"}, {}), refused);
  EXPECT_THAT(told_, ElementsAre(HasSubstr("refused client 'mallory', which is not expected; to admit it")));
}

TEST_F(AdmissionTest, NameThatIsAdded_CountsAtItsNextCallAndAListThatIsBrokenChangesNothing) {
  Write("a\n");
  ASSERT_OK(Open());
  EXPECT_THAT(Poll("b"), StatusIs(absl::StatusCode::kPermissionDenied));
  Write("a\nb\n");
  EXPECT_OK(Poll("b"));
  Write("a\na\n");
  EXPECT_THAT(Poll("c"), StatusIs(absl::StatusCode::kPermissionDenied));
  EXPECT_OK(Poll("b"));
  EXPECT_THAT(told_, ::testing::Contains(HasSubstr("line 2 of '")));
}

// A disk that answers when it is told to.
class SlowDisk final : public testing::ForwardingFileSystem {
 public:
  StatusOr<std::string> ReadAll(const std::string& path) override {
    MutexLock lock(mutex_);
    ++reads_;
    changed_.NotifyAll();
    while (stopped_) changed_.Wait(mutex_);
    return ForwardingFileSystem::ReadAll(path);
  }
  void Stop() {
    MutexLock lock(mutex_);
    stopped_ = true;
  }
  void GoOn() {
    MutexLock lock(mutex_);
    stopped_ = false;
    changed_.NotifyAll();
  }
  void AwaitReads(int reads) {
    MutexLock lock(mutex_);
    while (reads_ < reads) changed_.Wait(mutex_);
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  int reads_ GUARDED_BY(mutex_) = 0;
  bool stopped_ GUARDED_BY(mutex_) = false;
};

// Anybody may call by a name that is not in the list, for which the file is read again.
TEST_F(AdmissionTest, StrangerWhileTheDiskIsSlow_DelaysNobodyOfTheList) {
  Write("a\n");
  SlowDisk disk;
  ASSERT_OK_AND_ASSIGN(const auto admission,
                       AllowList::Open(api_, disk, Path("clients.txt"), [](const std::string&) {}));
  disk.Stop();
  std::thread stranger([&] {
    EXPECT_THAT(admission->Poll({.caller = {.name = "mallory"}}), StatusIs(absl::StatusCode::kPermissionDenied));
  });
  disk.AwaitReads(2);
  EXPECT_OK(admission->Poll({.caller = {.name = "a"}}));
  disk.GoOn();
  stranger.join();
}

TEST_F(AdmissionTest, WhomAnOperatorApproves_IsAdmittedBesideTheFile) {
  Write("a\n");
  std::vector<std::string> strangers;
  bool approved = false;
  ASSERT_OK_AND_ASSIGN(const auto admission,
                       AllowList::Open(api_, fs_, Path("clients.txt"), [](const std::string&) {},
                                       {.approved = [&](const std::string& name) { return approved && name == "b"; },
                                        .on_stranger = [&](const std::string& name) { strangers.push_back(name); }}));
  EXPECT_THAT(admission->Poll({.caller = {.name = "b"}}), StatusIs(absl::StatusCode::kPermissionDenied));
  EXPECT_THAT(admission->Poll({.caller = {.name = "\x01"}}), StatusIs(absl::StatusCode::kPermissionDenied));
  EXPECT_THAT(strangers, ElementsAre("b")) << "what no client can be called is no name";
  approved = true;
  EXPECT_OK(admission->Poll({.caller = {.name = "b"}}));
}

TEST_F(AdmissionTest, ListThatIsNone_IsRefusedWithItsLine) {
  EXPECT_THAT(Open(), StatusIs(absl::StatusCode::kNotFound, HasSubstr("clients.txt")));
  Write("# nobody\n");
  EXPECT_THAT(Open(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("has no names")));
  Write("a\nb\na\n");
  EXPECT_THAT(Open(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("line 3 of")));
  Write("a\n\x01\n");
  EXPECT_THAT(Open(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("line 2 of")));
}

}  // namespace
}  // namespace rivulet
