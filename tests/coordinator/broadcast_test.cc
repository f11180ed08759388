// Values that a version sends to its clients besides the model: named by its tasks, fetched by digest, resumed after a
// restart.
#include <gmock/gmock.h>

#include <cstring>

#include "test_run.h"

namespace rivulet {
namespace {

using ::rivulet::testing::ErrorOf;
using ::rivulet::testing::StatusIs;
using ::testing::Each;
using ::testing::HasSubstr;

constexpr int64_t kSentElements = 3, kSendClients = 4;

// A delta of ones and a change of c of halves, which counts as a quarter of it.
std::string BothParts() {
  proto::Update update;
  for (const auto& [name, value] : {std::pair("dc", 0.5f), std::pair("delta", 1.0f)}) {
    const std::vector<float> values(kSentElements, value);
    proto::UpdatePart& part = *update.add_parts();
    part.set_name(name);
    part.set_data(values.data(), values.size() * sizeof(float));
  }
  for (const char* count : {"examples", "steps", "train_loss"}) (*update.mutable_scalars())[count] = 1;
  return update.SerializeAsString();
}

class BroadcastTest : public ::testing::Test {
 protected:
  BroadcastTest() {
    parts_ = TinyParts(kSentElements, 2);
    parts_.broadcasts = {"c"};
    parts_.server_optimizer = {"scaffold"};
    parts_.aggregation.parts = {
        {.elements = kSentElements, .weigh = "one"},
        {.name = "dc",
         .elements = kSentElements,
         .weigh = "one",
         .denominator = {.kind = Denominator::Kind::kConstant, .constant = static_cast<double>(kSendClients)}}};
    options_.scenario = TinyScenario(kSendClients, 2, 2);
    options_.db_path = folder_.db();
  }

  // Runs to the end; what the tasks of each version were sent.
  void Run(std::map<int64_t, std::vector<float>>& sent) {
    CoordinatorOptions options = options_;
    FakeFleet fleet(options);
    fleet.act = [&](Coordinator& coordinator, const std::string& client_id, const Task& task) {
      const NamedBlob* const blob = task.input("broadcast/c");
      ASSERT_NE(blob, nullptr);
      EXPECT_EQ(blob->id.form, BlobId::Form::kBytes);
      ASSERT_OK_AND_ASSIGN(auto reader, coordinator.Fetch(As(client_id), blob->id, 0));
      ASSERT_OK_AND_ASSIGN(const std::string bytes, ReadToEnd(*reader));
      EXPECT_EQ(Sha256Of(bytes), blob->id.digest);
      std::vector<float> values(bytes.size() / sizeof(float));
      std::memcpy(values.data(), bytes.data(), bytes.size());
      sent[task.base_version] = values;
      EXPECT_OK(Send(coordinator, client_id, task.id, BothParts()));
    };
    ASSERT_OK_AND_ASSIGN(const auto coordinator, CreateCoordinator(options, parts_));
    ASSERT_OK(fleet.Run(*coordinator, Names(kSendClients)));
    const auto model = coordinator->model();
    EXPECT_THAT(model->tensor(model->layout().slices()[0]).flat<float>(),
                Each(1.0f + static_cast<float>(options.scenario.run.rounds)));
  }

  TestFolder folder_;
  CoordinatorOptions options_;
  RunParts parts_;
};

TEST_F(BroadcastTest, TasksOfAVersion_AreSentItsOwnAlsoAfterARestart) {
  std::map<int64_t, std::vector<float>> sent;
  Run(sent);
  options_.resume = "latest";
  options_.scenario.run.rounds = 4;
  Run(sent);
  ASSERT_EQ(sent.size(), 4u);
  for (const auto& [version, values] : sent) {
    EXPECT_THAT(values,
                ::testing::ElementsAreArray(std::vector<float>(kSentElements, 0.25f * static_cast<float>(version))));
  }
}

TEST_F(BroadcastTest, AnotherDigest_IsNotFound) {
  ASSERT_OK_AND_ASSIGN(const auto coordinator, CreateCoordinator(options_, parts_));
  EXPECT_THAT(coordinator->Fetch(As("a"), {BlobId::Form::kBytes, Sha256Of("something else")}, 0),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("this coordinator has no blob")));
  coordinator->Stop();
}

TEST_F(BroadcastTest, ServerThatKeepsNoSuchVectorOrLacksItsPart_IsRefused) {
  RunParts keeps_nothing = parts_, no_part = parts_;
  keeps_nothing.server_optimizer = {"sgd"};
  EXPECT_EQ(ErrorOf(CreateCoordinator(options_, keeps_nothing)),
            "the plan has clients read 'c' of each version, and the server optimiser 'sgd' keeps no 'server/c'");
  no_part.aggregation.parts.pop_back();
  EXPECT_EQ(ErrorOf(CreateCoordinator(options_, no_part)),
            "the server optimiser 'scaffold' takes 3 elements of part 'dc', and the plan's updates have 0");
}

}  // namespace
}  // namespace rivulet
