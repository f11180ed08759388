// A version's file: the model, and the state with which the server's optimiser resumes.
#include "federated/server_state/server_state.h"

#include "engine/io/safetensors.h"
#include "federated/server_optimizers/server_optimizer.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::ErrorOf;
using ::rivulet::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Counts steps in one flat and adds means up in another: the rules of a room that no real optimiser shows so plainly.
class CountingOptimizer final : public ServerOptimizer {
 public:
  std::vector<Flat> Flats() const override { return {{"server/sum", 0.5f}, {"server/count", 1}}; }
  bool Step(const ServerStep& step) const override {
    for (size_t i = 0; i < step.next.size(); ++i) {
      step.next[i] = step.params[i] + step.mean[i];
      if (step.segment == Segment::kShared) continue;
      step.flats[0][i] += step.mean[i];
      step.flats[1][i] += 1;
    }
    return step.flats.size() == (step.segment == Segment::kTrainable ? 2 : 0);
  }
};

RIVULET_SERVER_OPTIMIZER(counting_registration, "test_counting", {Float("rate", 0.5, "How fast.").AtLeast(0)},
                         [](const Settings&) -> StatusOr<std::unique_ptr<const ServerOptimizer>> {
                           return std::make_unique<CountingOptimizer>();
                         });

std::shared_ptr<const ModelLayout> LayoutOf(std::vector<VariableSpec> variables) {
  return std::make_shared<const ModelLayout>(*ModelLayout::Create(variables));
}
std::shared_ptr<const ModelLayout> TwoTensors() {
  return LayoutOf({{"mean", {DType::kFloat32, Shape{1}}, Segment::kShared},
                   {"v", {DType::kFloat32, Shape{2}}, Segment::kTrainable},
                   {"w", {DType::kFloat32, Shape{1}}, Segment::kTrainable}});
}

std::string BytesOf(const ModelFile& file) {
  std::string bytes;
  for (const auto piece : file.pieces()) bytes.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  return bytes;
}

class ServerStateTest : public ::testing::Test {
 protected:
  ServerStateTest() {
    state_ = *FirstState(std::make_shared<const Model>(TwoTensors()), *optimizer_);
    state_ = *NextState(state_, *optimizer_, 1, std::vector<float>{1, 2, 3, 4});
    bytes_ = BytesOf(ModelFile(state_.model, state_.digest, {{"rivulet.round", "1"}}, state_.flats));
  }
  const std::unique_ptr<const ServerOptimizer> optimizer_ = *ServerOptimizer::Create({"test_counting"});
  ServerState state_;
  std::string bytes_;
};

TEST_F(ServerStateTest, Steps_SeeEachTensorsFlats) {
  EXPECT_THAT(state_.flat("server/sum"), ElementsAre(1.5f, 2.5f, 3.5f));
  EXPECT_THAT(state_.flat("server/count"), ElementsAre(2, 2, 2));
  EXPECT_THAT(state_.flat("server/none"), ::testing::IsEmpty());
  const auto next = NextState(state_, *optimizer_, 1, std::vector<float>{1, 1, 1, 1});
  ASSERT_OK(next);
  EXPECT_THAT(next->flat("server/sum"), ElementsAre(2.5f, 3.5f, 4.5f));
  EXPECT_THAT(state_.flat("server/sum"), ElementsAre(1.5f, 2.5f, 3.5f)) << "the version before stays";
}

// A file without numbers says nothing of them; a client's name may be anything.
TEST_F(ServerStateTest, Numbers_ReadBackTheSame) {
  EXPECT_EQ(ReadServerState(TwoTensors(), bytes_)->numbers, nullptr);
  const ServerNumbers numbers = {{{"mu", 0.1}, {"loss", -0x1.fffffffffffffp-1000}},
                                 {{"ward 7 \"é\"", {{"weight", 1.0 / 3}, {"loss", 2}}}, {"", {}}}};
  const std::string text = TextOf(numbers);
  const auto read = [&](const std::string& said) {
    return ReadServerState(TwoTensors(),
                           BytesOf(ModelFile(state_.model, state_.digest, {{kServerNumbersKey, said}}, state_.flats)));
  };
  ASSERT_OK_AND_ASSIGN(const ServerState again, read(text));
  ASSERT_NE(again.numbers, nullptr);
  EXPECT_EQ(*again.numbers, numbers);
  std::string damaged = text;
  damaged[20] ^= 1;
  for (const std::string& other : {damaged, text.substr(0, text.size() - 3), text + "0 ", std::string()}) {
    EXPECT_THAT(read(other), StatusIs(absl::StatusCode::kDataLoss)) << other;
  }
}

TEST_F(ServerStateTest, File_ReadsBackTheSame) {
  const auto again = ReadServerState(TwoTensors(), bytes_);
  ASSERT_OK(again);
  EXPECT_EQ(again->digest, state_.digest);
  EXPECT_THAT(again->flat("server/sum"), ElementsAre(1.5f, 2.5f, 3.5f));
  EXPECT_THAT(again->flat("server/count"), ElementsAre(2, 2, 2));
  EXPECT_OK(CheckState(*again, *optimizer_));
  EXPECT_EQ(BytesOf(ModelFile(again->model, again->digest, {{"rivulet.round", "1"}}, again->flats)), bytes_);
}

TEST_F(ServerStateTest, ModelOfSuchAFile_IsTheModelOfAFileWithout) {
  const auto model = ModelFromSafetensors(TwoTensors(), bytes_);
  ASSERT_OK(model);
  EXPECT_EQ((*model)->ComputeDigest(), state_.digest);
  const std::string alone = BytesOf(ModelFile(state_.model, state_.digest, {}));
  EXPECT_EQ(alone.find("server/"), alone.npos);
  const auto without = ReadServerState(TwoTensors(), alone);
  ASSERT_OK(without);
  EXPECT_EQ(without->flats, nullptr);
  EXPECT_EQ(without->digest, state_.digest);
  EXPECT_THAT(CheckState(*without, *optimizer_),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("it has no 'server/sum'")));
  EXPECT_THAT(CheckState(state_, **ServerOptimizer::Create({"sgd"})), StatusIs(absl::StatusCode::kDataLoss));
}

TEST_F(ServerStateTest, EveryDamagedBitOfAFlat_IsFound) {
  const size_t data = bytes_.size() - 2 * 3 * sizeof(float);
  for (size_t bit = 0; bit < 8 * 2 * 3 * sizeof(float); ++bit) {
    std::string damaged = bytes_;
    damaged[data + bit / 8] = static_cast<char>(damaged[data + bit / 8] ^ (1 << bit % 8));
    EXPECT_THAT(ReadServerState(TwoTensors(), damaged), StatusIs(absl::StatusCode::kDataLoss)) << bit;
  }
}

TEST_F(ServerStateTest, FlatsOfAnotherLength_AreRefused) {
  const float one[] = {1, 2}, v[] = {1, 2}, zero[] = {0};
  const SafetensorsEntry entries[] = {
      {"mean", DType::kFloat32, Shape{1}, std::as_bytes(std::span(zero))},
      {"v", DType::kFloat32, Shape{2}, std::as_bytes(std::span(v))},
      {"w", DType::kFloat32, Shape{1}, std::as_bytes(std::span(zero))},
      {"server/m", DType::kFloat32, Shape{2}, std::as_bytes(std::span(one))},
  };
  const auto bytes = SerializeSafetensors(entries, {{"rivulet.segments", R"({"server/m":"server"})"}});
  EXPECT_EQ(ErrorOf(ReadServerState(TwoTensors(), *bytes)),
            "tensor 'server/m' of the model file is float32[2]; the server's must be float32[3]");
  // What is not said to be the server's is nobody's.
  const auto unsaid = SerializeSafetensors(entries, {});
  EXPECT_THAT(ErrorOf(ReadServerState(TwoTensors(), *unsaid)), HasSubstr("belongs to no variable"));
  const auto missing =
      SerializeSafetensors(std::span(entries).first(3), {{"rivulet.segments", R"({"server/m":"server"})"}});
  EXPECT_THAT(ReadServerState(TwoTensors(), *missing), StatusIs(absl::StatusCode::kDataLoss));
}

TEST_F(ServerStateTest, VariableOfAFlatsName_IsRefused) {
  const auto layout = LayoutOf({{"server/sum", {DType::kFloat32, Shape{1}}, Segment::kTrainable}});
  EXPECT_THAT(FirstState(std::make_shared<const Model>(layout), *optimizer_),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'server/sum'")));
}

TEST(ServerOptimizer, UnknownNamesAndSettings_AreRefused) {
  EXPECT_EQ(ErrorOf(ServerOptimizer::Create({"sdg"})), "there is no server optimizer 'sdg'. Did you mean 'sgd'?");
  EXPECT_THAT(ErrorOf(ServerOptimizer::Create({"sgd", {{"rate", 0.5}}})), HasSubstr("unknown key 'rate'"));
  EXPECT_THAT(ErrorOf(ServerOptimizer::Create({"test_counting", {{"rate", -1.0}}})), HasSubstr("at least 0"));
}

}  // namespace
}  // namespace rivulet
