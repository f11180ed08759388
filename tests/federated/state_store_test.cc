// A client's states: their bytes, their files, and consistency after a crash at any moment.
#include "federated/states/state_store.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "engine/io/crc32c.h"
#include "federated/states/state_blob.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_folder.h"

namespace rivulet {
namespace {

using ::testing::HasSubstr;
using testing::StatusIs;
using ::testing::UnorderedElementsAre;

constexpr char kRun[] = "run-1";

StateBlob BlobOf(float value) {
  std::vector<float> values(5, value);
  return WriteState(std::vector<NamedState>{{"n", values}});
}
TaskId TaskOf(const std::string& client, int64_t round, int64_t attempt = 1) {
  return TaskIdOf(kRun, {TaskKind::kTrain, round, attempt, client, 0});
}

TEST(StateBlob, WhatIsWritten_IsRead) {
  std::vector<float> a = {1, -2, 3.5f}, b(1000, 0.25f), x(3), y(1000);
  const std::string blob = WriteState(std::vector<NamedState>{{"a", a}, {"b", b}});
  ASSERT_OK(ReadState(blob, std::vector<NamedState>{{"a", x}, {"b", y}}));
  EXPECT_EQ(x, a);
  EXPECT_EQ(y, b);
}

TEST(StateBlob, AddedTo_IsAsWrittenAtOnce) {
  std::vector<float> a = {1, -2, 3.5f}, b(1000, 0.25f);
  const std::vector<NamedState> both = {{"a", a}, {"b", b}};
  std::string blob;
  AddToState(blob, std::span(both).first(1));
  EXPECT_EQ(blob, WriteState(std::span(both).first(1)));
  AddToState(blob, std::span(both).last(1));
  EXPECT_EQ(blob, WriteState(both));
  EXPECT_TRUE(IsWholeState(blob));
}

// Whose checksum is right may still say anything of its lengths.
TEST(StateBlob, NameThatReachesBeyondTheEnd_IsRefused) {
  std::vector<float> a = {1, 2};
  std::string blob = std::string("\x01\0\0\0", 4) + "\xf0\xff\xff\xff" + "a";
  const uint32_t crc = Crc32c(blob);
  blob.append(reinterpret_cast<const char*>(&crc), sizeof(crc));
  ASSERT_TRUE(IsWholeState(blob));
  EXPECT_THAT(ReadState(blob, std::vector<NamedState>{{"a", a}}), StatusIs(absl::StatusCode::kDataLoss));
}

TEST(StateBlob, DamagedOrOfAnotherPlan_IsRefused) {
  std::vector<float> a = {1, 2};
  std::vector<float> shorter(1);
  const std::string blob = WriteState(std::vector<NamedState>{{"a", a}});
  const auto refused = [](absl::StatusCode code) { return StatusIs(code, HasSubstr("the client's state of ")); };
  EXPECT_THAT(ReadState(blob, std::vector<NamedState>{{"b", a}}), refused(absl::StatusCode::kDataLoss));
  EXPECT_THAT(ReadState(blob, std::vector<NamedState>{{"a", shorter}}), refused(absl::StatusCode::kDataLoss));
  EXPECT_THAT(ReadState(blob, {}), refused(absl::StatusCode::kDataLoss));
  for (size_t i = 0; i < blob.size(); ++i) {
    std::string damaged = blob;
    damaged[i] = static_cast<char>(damaged[i] ^ 4);
    EXPECT_FALSE(ReadState(damaged, std::vector<NamedState>{{"a", a}}).ok()) << i;
    EXPECT_FALSE(ReadState(blob.substr(0, i), std::vector<NamedState>{{"a", a}}).ok()) << i;
  }
}

class StateStoreTest : public testing::FolderTest {
 protected:
  // As the next process would see it.
  std::unique_ptr<ClientStateStore> Open(bool sync = false) const {
    return NewStateStore(FileSystem::Default(), Path("states"), sync);
  }
  std::vector<std::string> Files() const {
    std::vector<std::string> names;
    if (!std::filesystem::exists(Path("states"))) return names;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(Path("states"))) {
      if (entry.is_regular_file()) names.push_back(entry.path().filename());
    }
    return names;
  }
};

// A client that takes part in four versions, each ready before the next task and durable one task later. Wherever its
// process or the coordinator's dies, what state_of names then is there, as it was proposed.
TEST_F(StateStoreTest, EveryPrefixOfProposeReadyDurable_FindsWhatStateOfNames) {
  struct Step {
    enum { kPropose, kReady, kDurable } kind;
    int64_t round;
  };
  std::vector<Step> steps;
  for (int64_t round = 1; round <= 4; ++round) {
    steps.push_back({Step::kPropose, round});
    steps.push_back({Step::kReady, round});
    if (round > 1) steps.push_back({Step::kDurable, round - 1});
  }
  for (const bool sync : {false, true}) {
    for (size_t prefix = 0; prefix <= steps.size(); ++prefix) {
      std::filesystem::remove_all(Path("states"));
      auto store = Open(sync);
      int64_t ready = 0, durable = 0;
      for (size_t i = 0; i < prefix; ++i) {
        const auto [kind, round] = steps[i];
        if (kind == Step::kPropose) {
          ASSERT_OK(store->Propose(kRun, "a", TaskOf("a", round), BlobOf(static_cast<float>(round))));
        } else if (kind == Step::kReady) {
          ready = round;
        } else {
          store->Durable(kRun, "a", TaskOf("a", round));
          durable = round;
        }
      }
      // The client's process died, or the coordinator's: it goes back to what is durable.
      store = Open(sync);
      for (const int64_t state_of : {ready, durable}) {
        const auto blob = store->Read(kRun, "a", state_of == 0 ? "" : TaskOf("a", state_of));
        ASSERT_OK(blob) << prefix << " " << state_of;
        EXPECT_EQ(*blob, state_of == 0 ? "" : BlobOf(static_cast<float>(state_of)));
      }
      // Trained again, what it proposes takes the place of what was proposed before the crash.
      ASSERT_OK(store->Propose(kRun, "a", TaskOf("a", durable + 1), BlobOf(100)));
      EXPECT_EQ(*store->Read(kRun, "a", TaskOf("a", durable + 1)), BlobOf(100));
    }
  }
}

TEST_F(StateStoreTest, RemoveStates_TakesARunsOwnAndNothingElse) {
  const auto store = Open();
  for (const char* client : {"a", "b", "c"}) ASSERT_OK(store->Propose(kRun, client, TaskOf(client, 1), BlobOf(1)));
  const std::string run = JoinPath(Path("states"), kRun);
  RemoveStates(FileSystem::Default(), run);
  EXPECT_TRUE(std::filesystem::is_empty(run));
  RemoveStates(FileSystem::Default(), run);

  ASSERT_OK(store->Propose(kRun, "a", TaskOf("a", 1), BlobOf(1)));
  const std::string folder = std::filesystem::directory_iterator(JoinPath(run, "state"))->path();
  const auto write = [](const std::string& path) { std::ofstream(path) << "somebody's"; };
  write(JoinPath(folder, "notes.txt"));
  write(JoinPath(folder, "r1-a1-a-1"));  // named by its client: no state
  RemoveStates(FileSystem::Default(), run);
  EXPECT_THAT(Files(), UnorderedElementsAre("notes.txt", "r1-a1-a-1"));
}

TEST_F(StateStoreTest, Durable_RemovesWhatItsClientProposedBefore) {
  const auto store = Open();
  ASSERT_OK(store->Propose(kRun, "b", TaskOf("b", 1), BlobOf(1)));
  for (const int64_t attempt : {1, 2}) {
    for (const int64_t round : {9, 10, 11}) {
      ASSERT_OK(store->Propose(kRun, "a", TaskOf("a", round, attempt), BlobOf(static_cast<float>(round))));
    }
  }
  EXPECT_EQ(Files().size(), 7u);
  store->Durable(kRun, "a", TaskOf("a", 10, 2));
  EXPECT_EQ(Files().size(), 4u);
  EXPECT_THAT(store->Read(kRun, "a", TaskOf("a", 9, 2)), StatusIs(absl::StatusCode::kNotFound, HasSubstr("'a'")));
  EXPECT_OK(store->Read(kRun, "a", TaskOf("a", 10, 2)));
  EXPECT_OK(store->Read(kRun, "a", TaskOf("a", 11, 1)));
  EXPECT_OK(store->Read(kRun, "b", TaskOf("b", 1)));
  store->Forget(kRun, "a", TaskOf("a", 11, 1));
  store->Forget(kRun, "a", TaskOf("a", 11, 1));
  EXPECT_FALSE(store->Read(kRun, "a", TaskOf("a", 11, 1)).ok());
  EXPECT_EQ(Files().size(), 3u);
}

TEST_F(StateStoreTest, DamagedFile_IsNotFound) {
  const auto store = Open();
  ASSERT_OK(store->Propose(kRun, "a", TaskOf("a", 1), BlobOf(1)));
  for (const auto& entry : std::filesystem::recursive_directory_iterator(Path("states"))) {
    if (entry.is_regular_file()) std::filesystem::resize_file(entry.path(), 10);
  }
  EXPECT_THAT(store->Read(kRun, "a", TaskOf("a", 1)), StatusIs(absl::StatusCode::kNotFound, HasSubstr("damaged")));
}

// Names come from coordinators, and from whoever calls a client so.
TEST_F(StateStoreTest, Names_LeadNowhereElse) {
  const auto store = Open();
  const std::string odd = "../-r1-a1-/☃";
  ASSERT_OK(store->Propose(kRun, odd, TaskOf(odd, 3), BlobOf(1)));
  EXPECT_OK(store->Read(kRun, odd, TaskOf(odd, 3)));
  EXPECT_THAT(Files(), ::testing::ElementsAre(::testing::EndsWith("-r3-a1-state-0")));
  for (const std::string run : {"..", "", "a/b", ".hidden"}) {
    const TaskId task = TaskIdOf(run, {TaskKind::kTrain, 1, 1, "a", 0});
    EXPECT_THAT(store->Propose(run, "a", task, BlobOf(1)), StatusIs(absl::StatusCode::kInvalidArgument)) << run;
  }
  EXPECT_THAT(store->Read(kRun, "a", TaskOf("b", 1)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("is no task of client 'a'")));
}

TEST(TaskNames, AreReadFromBothEnds) {
  const TaskName name = {TaskKind::kTrain, 12, 3, "x-r1-a2-y-7", 41};
  EXPECT_EQ(TaskIdOf("run-r5", name), "run-r5-r12-a3-x-r1-a2-y-7-41");
  EXPECT_EQ(TaskNameOf("run-r5-r12-a3-x-r1-a2-y-7-41", "run-r5"), name);
  EXPECT_EQ(TaskNameOf("run-e2-a1-b-0", "run"), (TaskName{TaskKind::kEvaluate, 2, 1, "b", 0}));
  for (const char* other : {"", "run", "run-r1", "run-r1-a1", "run-r1-a1-", "run-r1-a1-b", "run-r1-a1-b-",
                            "run-rx-a1-b-0", "run-r1-a1-b-0x", "ruin-r1-a1-b-0"}) {
    EXPECT_EQ(TaskNameOf(other, "run"), std::nullopt) << other;
  }
}

}  // namespace
}  // namespace rivulet
