// Crashes at every durable step of a call, followed by a second call. The process ends there and unsynced data is lost,
// or the disk is full from there on.
#include <sys/wait.h>
#include <unistd.h>

#include "tests/certificates/test_authority.h"
#include "tests/coordinator/faulty_file_system.h"

namespace rivulet::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class Interrupted : public AuthorityTest {
 protected:
  // Runs `call` in a process of its own that dies at its `step`th durable step; false when it had fewer.
  bool DiesAt(int step, const std::function<Status(FileSystem&)>& call) {
    const pid_t child = fork();
    if (child == 0) {
      FaultyFileSystem faulty;
      int seen = 0;
      faulty.at = [&](const std::string&) {
        if (++seen == step) {
          faulty.LoseUnsynced();
          _exit(9);
        }
        return absl::OkStatus();
      };
      _exit(call(faulty).ok() ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_NE(WEXITSTATUS(status), 1) << "step " << step << ": an error where there is none";
    return WEXITSTATUS(status) == 9;
  }
  // What a crash or an error may not leave beside a finished call.
  std::vector<std::string> Leftovers(const std::string& folder = "") const {
    std::vector<std::string> left;
    const std::vector<std::string> names = FileSystem::Default().List(Path(folder)).value();
    for (const std::string& name : names)
      if (name.find(".part") != std::string::npos) left.push_back(name);
    return left;
  }
};

TEST_F(Interrupted, Init_IsDoneByASecondCall) {
  int step = 1;
  while (DiesAt(step, [&](FileSystem& fs) { return Authority::Init(fs, clock_, Path("ca"), "Heart study", 10); })) {
    const Status second = Init("ca", 10);
    // Either nothing was there, or all of it.
    EXPECT_TRUE(second.ok() || absl::IsAlreadyExists(second)) << step << ": " << Message(second);
    EXPECT_OK(Open()) << "step " << step;
    EXPECT_THAT(Leftovers(), SizeIs(0));
    std::filesystem::remove_all(Path("ca"));
    ++step;
  }
  EXPECT_GT(step, 15);
}

TEST_F(Interrupted, Issue_IsDoneByASecondCallAndNothingGoodIsUnknown) {
  for (const char* out : {"kit", "kit.tar.gz"}) {
    int step = 1, finished = 0;
    ASSERT_OK(Init());
    while (DiesAt(step, [&](FileSystem& fs) { return Issue(fs, SubjectOf("client/a"), out).status(); })) {
      const bool handed_over = fs_.Exists(Path(out));
      const StatusOr<IndexRow> second = Issue("client/a", out);
      EXPECT_TRUE(handed_over ? absl::IsAlreadyExists(second.status()) : second.ok())
          << step << ": " << Message(second.status());
      ASSERT_OK_AND_ASSIGN(const auto authority, Open());
      // There is one certificate, and it is the one that was handed over.
      ASSERT_THAT(authority->rows(), SizeIs(1)) << "step " << step;
      if (std::string_view(out) == "kit") {
        ASSERT_OK_AND_ASSIGN(const NodeIdentity identity, Load("kit"));
        EXPECT_EQ(identity.serial, authority->rows().front().serial);
      }
      EXPECT_THAT(Leftovers(), SizeIs(0)) << "step " << step;
      EXPECT_THAT(fs_.List(Path("ca")).value(),
                  ElementsAre("authority.crt", "authority.key", "index.txt", "lock", "revoked.crl"));
      finished += handed_over;
      std::filesystem::remove_all(Path(out));
      std::filesystem::remove_all(Path("ca"));
      ASSERT_OK(Init());
      ++step;
    }
    EXPECT_GT(step, 10);
    EXPECT_GT(finished, 0);
    std::filesystem::remove_all(Path(out));
    std::filesystem::remove_all(Path("ca"));
  }
}

TEST_F(Interrupted, Revoke_IsDoneByTheNextCall) {
  int step = 1;
  ASSERT_OK(Init());
  const auto issue = [&] {
    std::filesystem::remove_all(Path("a"));
    return Issue("client/a", "a").value().serial;
  };
  std::string serial = issue();
  while (DiesAt(step, [&](FileSystem& fs) -> Status {
    RIVULET_ASSIGN_OR_RETURN(const auto authority, Authority::OpenToSign(fs, clock_, Path("ca")));
    return authority->RevokeName(Name("client/a"), RevocationReason::kSuperseded).status();
  })) {
    ASSERT_OK_AND_ASSIGN(auto authority, Open());
    const bool revoked = authority->rows().back().revocation.has_value();
    ASSERT_OK_AND_ASSIGN(const RevocationList list,
                         ReadRevocationList(authority->revocation_list(), "l", authority->certificate()));
    EXPECT_EQ(list.Contains(serial), revoked) << "step " << step;
    authority.reset();
    if (revoked) serial = issue();
    ++step;
  }
  EXPECT_GT(step, 6);
}

TEST_F(Interrupted, FullDisk_HasIssuedNothingAndASecondCallWorks) {
  ASSERT_OK(Init());
  int step = 1;
  for (bool failed = true; failed; ++step) {
    FaultyFileSystem full;
    int seen = 0;
    std::string at;
    full.at = [&](const std::string& point) -> Status {
      // Removing and naming need no space.
      const bool writes = point.starts_with("create") || point.starts_with("write") || point.starts_with("sync ");
      if (!writes || ++seen < step) return absl::OkStatus();
      at = point;
      return ResourceExhausted("cannot write '{}': No space left on device", point);
    };
    const StatusOr<IndexRow> row = Issue(full, SubjectOf("client/a"), "kit");
    failed = !row.ok();
    if (!failed) break;
    EXPECT_THAT(row, StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("free some space there and call again")));
    EXPECT_FALSE(fs_.Exists(Path("kit"))) << at;
    EXPECT_THAT(Leftovers(), SizeIs(0)) << at;
    ASSERT_OK_AND_ASSIGN(const auto authority, Open());
    EXPECT_THAT(authority->rows(), SizeIs(0)) << at;
  }
  EXPECT_GT(step, 8);
  EXPECT_OK(Load("kit"));
}

TEST_F(Interrupted, FolderThatCannotBeWritten_SaysSo) {
  ASSERT_OK(Init());
  FaultyFileSystem refusing;
  refusing.at = [&](const std::string& point) -> Status {
    if (!point.starts_with("create")) return absl::OkStatus();
    return PermissionDenied("cannot {}: Read-only file system", point);
  };
  EXPECT_THAT(Issue(refusing, SubjectOf("client/a"), "kit"),
              StatusIs(absl::StatusCode::kPermissionDenied,
                       HasSubstr("run it as a user with write permission, or with a writable folder")));
  EXPECT_THAT(Authority::Init(refusing, clock_, Path("b"), "b", 1), StatusIs(absl::StatusCode::kPermissionDenied));
  EXPECT_FALSE(fs_.Exists(Path("b")));
  EXPECT_THAT(Leftovers(), SizeIs(0));
}

}  // namespace
}  // namespace rivulet::testing
