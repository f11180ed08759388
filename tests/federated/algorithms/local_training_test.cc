// FedNova, FedExP, FedDyn, MimeLite, FedSGD, q-FedAvg, TERM, signSGD, Per-FedAvg, APFL, FedPer, FedRep and FedBN: three
// rounds of each are what NumPy computes in float64 (reference/local_training.py); the limits that are federated
// averaging; what each option does.
#include "engine/models/classifier.h"
#include "engine/models/freeze.h"
#include "federated/aggregation/measured_scalar.h"
#include "tests/federated/algorithms/pixel_rounds.h"
#include "tests/federated/algorithms/robust_updates.h"

namespace rivulet {
namespace {

using ::rivulet::testing::ErrorOf;
using ::testing::HasSubstr;
using testing::PixelRounds;
using testing::PixelScenario;
using testing::RunPixels;

PixelRounds Ran(const std::string& algorithm, const SettingValues& options = {},
                Scenario scenario = PixelScenario("")) {
  scenario.algorithm.name = algorithm;
  scenario.algorithm.settings = options;
  auto run = RunPixels(scenario, 3);
  EXPECT_OK(run);
  return *std::move(run);
}

TEST(LocalTraining, ThreeRounds_AreNumPysInDouble) {
  const std::map<std::string, SettingValues> options = {{"fednova", {}},
                                                        {"fedexp", {{"epsilon", 1e-3}}},
                                                        {"feddyn", {{"alpha", 0.3}}},
                                                        {"mimelite", {{"beta", 0.6}}},
                                                        {"mime", {{"beta", 0.6}}},
                                                        {"fedsgd", {}},
                                                        {"q_fedavg", {{"q", 1.5}}},
                                                        {"per_fedavg", {{"alpha", 0.3}}},
                                                        {"signsgd", {}},
                                                        {"term", {{"t", 1.5}}}};
  for (const auto& [algorithm, values] : options) {
    SCOPED_TRACE(algorithm);
    Scenario scenario = PixelScenario("");
    scenario.server.learning_rate = 0.75;
    const PixelRounds run = Ran(algorithm, values, scenario);
    testing::ExpectReference(algorithm + ".txt", testing::WeightsOfModel(*run.server.model));
  }
}

// In reference/local_training.py too, of three batches a step; and whatever is compared next to each other is the same.
TEST(LocalTraining, HessianStep_IsHowFarGradientsAreCompared) {
  const auto weights = [](double alpha, double step) {
    Scenario scenario = PixelScenario("");
    scenario.server.learning_rate = 0.75;
    const PixelRounds run = Ran("per_fedavg", {{"alpha", alpha}, {"hessian_step", step}}, scenario);
    return testing::WeightsOfModel(*run.server.model);
  };
  testing::ExpectReference("per_fedavg_hf.txt", weights(0.3, 0.05));
  const std::vector<float> far = weights(0.3, 5), near = weights(0.3, 0.05), nearer = weights(0.3, 0.02);
  double off = 0, curved = 0;
  for (size_t i = 0; i < far.size(); ++i) {
    off = std::max(off, std::abs(static_cast<double>(near[i]) - nearer[i]));
    curved = std::max(curved, std::abs(static_cast<double>(far[i]) - near[i]));
  }
  EXPECT_LT(off, 1e-4);
  EXPECT_GT(curved, 1e-3);
}

// The first round has nothing to correct by, and the second has.
TEST(LocalTraining, MimesFirstRound_IsMimeLitesToTheBit) {
  const PixelRounds mime = Ran("mime", {{"beta", 0.6}}), lite = Ran("mimelite", {{"beta", 0.6}});
  EXPECT_EQ(mime.versions[0], lite.versions[0]);
  EXPECT_NE(mime.versions[1], lite.versions[1]);
  EXPECT_FALSE(mime.server.flat("server/c").empty());
  EXPECT_TRUE(lite.server.flat("server/c").empty());
}

// A model whose biases are each client's own.
ModelDef PixelsWithOwnBias() {
  ModelDef model = testing::FourPixels();
  EXPECT_OK(MakePersonal(model, std::vector<std::string>{"b"}));
  return model;
}

// No version has their values, so none is measured.
Scenario PersonalPixels(const std::string& algorithm) {
  Scenario scenario = PixelScenario(algorithm);
  scenario.evaluation.every = 0;
  return scenario;
}

Scenario RepScenario(int64_t head_epochs) {
  Scenario scenario = PersonalPixels("fedrep");
  scenario.algorithm.settings["head_epochs"] = head_epochs;
  scenario.server.learning_rate = 0.75;
  return scenario;
}

TEST(LocalTraining, FedRepsThreeRounds_AreNumPysInDouble) {
  ASSERT_OK_AND_ASSIGN(const PixelRounds run, RunPixels(RepScenario(3), 3, PixelsWithOwnBias()));
  testing::ExpectReference("fedrep.txt", testing::WeightsOfModel(*run.server.model));
}

TEST(LocalTraining, HeadEpochs_AreHowLongAClientLearnsItsOwnLayers) {
  const auto bias = [](int64_t head_epochs) {
    const auto run = RunPixels(RepScenario(head_epochs), 1, PixelsWithOwnBias());
    EXPECT_OK(run);
    std::vector<float> padded(16);
    EXPECT_OK(ReadState(run->kept.at(0), std::vector<NamedState>{{"params/local", padded}}));
    double square = 0;
    for (const float value : padded) square += static_cast<double>(value) * value;
    return square;
  };
  EXPECT_GT(bias(1), 0);
  EXPECT_GT(bias(10), bias(1));
}

TEST(LocalTraining, FedPer_IsFederatedAveragingOfAModelWithPersonalLayers) {
  const ModelDef model = PixelsWithOwnBias();
  ASSERT_OK_AND_ASSIGN(const PixelRounds average, RunPixels(PersonalPixels("fedavg"), 3, model));
  ASSERT_OK_AND_ASSIGN(const PixelRounds personal, RunPixels(PersonalPixels("fedper"), 3, model));
  EXPECT_EQ(personal.versions, average.versions);
  for (const char* algorithm : {"fedper", "fedrep"}) {
    EXPECT_THAT(ErrorOf(RunPixels(PixelScenario(algorithm), 1)), HasSubstr("say which in model.personal"));
  }
}

// Four pixels, two hidden units, a batch normalisation of them, three classes.
ModelDef NormalisedPixels(bool personal) {
  auto made = Classifier({.input = {4}, .classes = 3}, [](Layers& layers, Output image) {
    return layers.Dense("dense2", layers.BatchNorm("norm", layers.Dense("dense1", image, 2), {}), 3);
  });
  EXPECT_OK(made);
  const std::vector<std::string> own = {"norm/*"};
  EXPECT_OK(MakePersonal(*made, personal ? std::span<const std::string>(own) : std::span<const std::string>()));
  return *std::move(made);
}

// What a client keeps are its own normalisations with their statistics, and no version has any.
TEST(LocalTraining, FedBn_AveragesAllButTheNormalisations) {
  ASSERT_OK_AND_ASSIGN(const PixelRounds own, RunPixels(PersonalPixels("fedbn"), 1, NormalisedPixels(true)));
  EXPECT_EQ(own.plan->layout()->elements(Segment::kShared), 0);
  EXPECT_EQ(own.plan->layout()->update_elements(), 4 * 2 + 2 + 2 * 3 + 3);
  const size_t kept = own.plan->layout()->segment_bytes(Segment::kLocal) / sizeof(float);
  std::vector<std::vector<float>> of_client(2, std::vector<float>(kept));
  for (const int client : {0, 1}) {
    ASSERT_OK(ReadState(own.kept.at(client),
                        std::vector<NamedState>{{"params/local", of_client[static_cast<size_t>(client)]}}));
  }
  const Slice& variance = *own.plan->layout()->Find("norm/moving_variance");
  const size_t at = (variance.offset - own.plan->layout()->segment_offset(Segment::kLocal)) / sizeof(float);
  EXPECT_NE(of_client[0][at], 1) << "its statistics have moved";
  EXPECT_NE(of_client[0][at], of_client[1][at]);
  EXPECT_TRUE(own.declared.at(0).contains("train_loss"));
  ASSERT_OK_AND_ASSIGN(const PixelRounds plain, RunPixels(PersonalPixels("fedavg"), 3, NormalisedPixels(true)));
  ASSERT_OK_AND_ASSIGN(const PixelRounds named, RunPixels(PersonalPixels("fedbn"), 3, NormalisedPixels(true)));
  EXPECT_EQ(named.versions, plain.versions);
}

TEST(LocalTraining, FedBn_RefusesWhatItCannotKeep) {
  EXPECT_THAT(ErrorOf(RunPixels(PersonalPixels("fedbn"), 1, NormalisedPixels(false))),
              HasSubstr("say which in model.personal, such as [\"*norm*/*\"]"));
  ModelDef half = NormalisedPixels(false);
  ASSERT_OK(MakePersonal(half, std::vector<std::string>{"norm/gamma"}));
  EXPECT_THAT(ErrorOf(RunPixels(PersonalPixels("fedbn"), 1, half)), HasSubstr("[\"*norm*/*\"]"));
  Scenario decays = PersonalPixels("fedbn");
  decays.client.optimizer.settings["weight_decay"] = 0.1;
  EXPECT_THAT(ErrorOf(RunPixels(decays, 1, NormalisedPixels(true))),
              HasSubstr("client.optimizer.weight_decay would draw to zero"));
}

TEST(LocalTraining, InTheirLimits_AreFederatedAveragingToTheBit) {
  for (const char* kernels : {"native", "portable"}) {
    SCOPED_TRACE(kernels);
    Scenario scenario = PixelScenario("");
    scenario.run.kernels = kernels;
    EXPECT_EQ(Ran("fedexp", {{"epsilon", 1e6}}, scenario).versions, Ran("fedavg", {}, scenario).versions);
    Scenario uniform = scenario;
    uniform.server.weights = "uniform";
    EXPECT_EQ(Ran("feddyn", {{"alpha", 0.0}}, scenario).versions, Ran("fedavg", {}, uniform).versions);
    EXPECT_EQ(Ran("mimelite", {{"beta", 0.0}}, scenario).versions, Ran("fedavg", {}, uniform).versions);
    EXPECT_EQ(Ran("q_fedavg", {{"q", 0.0}}, scenario).versions, Ran("fedavg", {}, uniform).versions);
    Scenario whole = scenario;
    whole.client.epochs = 1;
    whole.client.batch_size = 100;
    EXPECT_EQ(Ran("fedsgd", {}, scenario).versions, Ran("fedavg", {}, whole).versions);
  }
}

// Two steps each, and sums that round nothing: what is halved and doubled is itself.
TEST(LocalTraining, FedNovaOfEqualSteps_IsFederatedAveragingToTheBit) {
  for (const char* weights : {"examples", "uniform"}) {
    Scenario scenario = PixelScenario("");
    scenario.client.batch_size = 8;
    scenario.server.value_bits = 0;
    scenario.server.max_weight = 8;
    scenario.server.weights = weights;
    EXPECT_EQ(Ran("fednova", {}, scenario).versions, Ran("fedavg", {}, scenario).versions) << weights;
  }
  EXPECT_NE(Ran("fednova").versions, Ran("fedavg").versions);
}

double SquaresBetween(const PixelRounds& a, const Model& b) {
  const std::vector<float> one = testing::WeightsOfModel(*a.server.model), other = testing::WeightsOfModel(b);
  double squares = 0;
  for (size_t i = 0; i < one.size(); ++i) squares += std::pow(static_cast<double>(one[i]) - other[i], 2);
  return squares;
}

TEST(LocalTraining, Epsilon_HoldsTheStretchBack) {
  const PixelRounds average = Ran("fedavg");
  double before = std::numeric_limits<double>::infinity();
  for (const double epsilon : {1e-6, 0.003, 0.01, 1.0}) {
    const double beyond = SquaresBetween(Ran("fedexp", {{"epsilon", epsilon}}), *average.server.model);
    EXPECT_LE(beyond, before) << epsilon;
    before = beyond;
  }
  EXPECT_EQ(before, 0);
}

TEST(LocalTraining, Alpha_HoldsClientsToTheModel) {
  Scenario one_round = PixelScenario("feddyn");
  double before = std::numeric_limits<double>::infinity();
  for (const double alpha : {0.1, 0.5, 1.5}) {
    one_round.algorithm.settings["alpha"] = alpha;
    ASSERT_OK_AND_ASSIGN(const PixelRounds run, RunPixels(one_round, 1));
    const double moved = SquaresBetween(run, *testing::FourPixelsBase(*run.plan));
    EXPECT_LT(moved, before) << alpha;
    before = moved;
  }
}

TEST(LocalTraining, Beta_IsHowMuchOfTheMomentumStays) {
  for (const char* algorithm : {"mime", "mimelite"}) {
    Scenario scenario = PixelScenario(algorithm);
    const auto momentum = [&](double beta) {
      scenario.algorithm.settings["beta"] = beta;
      const auto run = RunPixels(scenario, 1);
      EXPECT_OK(run);
      const std::span<const float> m = run->server.flat("server/m");
      return std::vector<float>(m.begin(), m.end());
    };
    const std::vector<float> quarter = momentum(0.75), half = momentum(0.5);
    for (size_t i = 0; i < half.size(); ++i) EXPECT_FLOAT_EQ(half[i], 2 * quarter[i]) << algorithm << i;
  }
}

// How far the losses of all clients lie apart, of the model after three rounds.
double SpreadOfLosses(const std::string& algorithm, const SettingValues& options) {
  const PixelRounds run = Ran(algorithm, options);
  double least = std::numeric_limits<double>::infinity(), most = 0;
  for (int client = 0; client < 3; ++client) {
    const auto trainer = Trainer::Create(std::make_shared<PassPrograms>(run.plan));
    const auto decoder = ExampleDecoder::Create(run.plan->features());
    const DatasetExamples examples(std::make_shared<testing::MemoryDataset>(testing::FourPixelRecords(
                                       client, testing::kPixelExamples[static_cast<size_t>(client)])),
                                   std::nullopt, *decoder);
    Task task;
    task.id = "run-r4-a1-a-0";
    if (run.server.numbers != nullptr) task.numbers = run.server.numbers->all;
    const LaneTask lane{&task, "a", run.server.model.get(), &examples};
    const auto results = (*trainer)->Train({&lane, 1});
    EXPECT_OK(results);
    const double loss = results->at(0).declared.at("initial_loss");
    least = std::min(least, loss);
    most = std::max(most, loss);
  }
  return most - least;
}

TEST(LocalTraining, Q_MakesTheModelFairer) {
  EXPECT_LT(SpreadOfLosses("q_fedavg", {{"q", 5.0}}), SpreadOfLosses("q_fedavg", {{"q", 0.0}}));
}

TEST(LocalTraining, T_MakesTheModelFairer) {
  double before = std::numeric_limits<double>::infinity();
  for (const double t : {-1.0, 0.0, 1.0, 3.0}) {
    const double spread = SpreadOfLosses("term", {{"t", t}});
    EXPECT_LT(spread, before) << t;
    before = spread;
  }
  Scenario steep = PixelScenario("term");
  steep.algorithm.settings = {{"t", 60.0}};
  EXPECT_THAT(ErrorOf(RunPixels(steep, 1)), HasSubstr("set algorithm.reference to a loss near this one"));
}

TEST(LocalTraining, Alpha_IsHowFarPerFedAvgLooksAhead) {
  const auto alone = [](double alpha) { return Ran("per_fedavg", {{"alpha", alpha}}); };
  const PixelRounds none = alone(0);
  double before = 0;
  for (const double alpha : {0.01, 0.1, 1.0}) {
    const double apart = SquaresBetween(alone(alpha), *none.server.model);
    EXPECT_GT(apart, before) << alpha;
    before = apart;
  }
  Scenario scheduled = PixelScenario("per_fedavg");
  scheduled.client.schedule.kind = "cosine";
  EXPECT_THAT(ErrorOf(RunPixels(scheduled, 1)), HasSubstr("no client.schedule"));
}

// A vector that a client keeps, in wire order. `names`: of all that the plan has it keep.
std::vector<float> KeptVector(const PixelRounds& run, int client, const std::vector<std::string>& names, size_t which) {
  const ModelLayout& layout = *run.plan->layout();
  std::vector<std::vector<float>> flats(names.size(), std::vector<float>(layout.trained_bytes() / sizeof(float)));
  std::vector<NamedState> states;
  for (size_t i = 0; i < names.size(); ++i) states.push_back({names[i], flats[i]});
  EXPECT_OK(ReadState(run.kept.at(client), states));
  std::vector<float> values;
  for (const Slice& slice : layout.slices()) {
    const auto begin = flats[which].begin() + static_cast<std::ptrdiff_t>(slice.offset / sizeof(float));
    values.insert(values.end(), begin, begin + slice.elements);
  }
  return values;
}

TEST(LocalTraining, ApflsThreeRounds_AreNumPysInDouble) {
  Scenario scenario = PixelScenario("");
  scenario.server.learning_rate = 0.75;
  const PixelRounds run = Ran("apfl", {{"alpha", 0.4}}, scenario);
  std::vector<float> found = testing::WeightsOfModel(*run.server.model);
  for (int client = 0; client < 3; ++client) {
    for (const float value : KeptVector(run, client, {"own", "mixture"}, 1)) found.push_back(value);
  }
  testing::ExpectReference("apfl.txt", found);
  Scenario adam = PixelScenario("apfl");
  adam.client.optimizer.kind = "adam";
  EXPECT_THAT(ErrorOf(RunPixels(adam, 1)), HasSubstr("needs client.optimizer.kind"));
}

TEST(LocalTraining, ApflsThreeRoundsWithLearntShares_AreNumPysInDouble) {
  Scenario scenario = PixelScenario("");
  scenario.server.learning_rate = 0.75;
  const PixelRounds run = Ran("apfl", {{"alpha", 0.4}, {"alpha_learning_rate", 0.8}}, scenario);
  std::vector<float> found = testing::WeightsOfModel(*run.server.model);
  for (int client = 0; client < 3; ++client) {
    for (const float value : KeptVector(run, client, {"own", "mixture", "learnt"}, 1)) found.push_back(value);
  }
  testing::ExpectReference("apfl_adaptive.txt", found);
}

TEST(LocalTraining, AlphaLearningRate_IsHowFarAClientsShareMoves) {
  const auto share = [](double rate) {
    return KeptVector(Ran("apfl", {{"alpha", 0.5}, {"alpha_learning_rate", rate}}), 0, {"own", "mixture", "learnt"},
                      2)[0];
  };
  const float little = share(0.01), more = share(0.1);
  EXPECT_NE(little, 0);
  EXPECT_GT(std::abs(more), 2 * std::abs(little));
  EXPECT_NEAR(std::abs(share(1e3)), 0.5, 1.1e-3) << "all, or next to nothing, and no further";
  EXPECT_EQ(Ran("apfl", {{"alpha", 0.5}, {"alpha_learning_rate", 0.1}}).versions, Ran("fedavg").versions);
}

TEST(LocalTraining, Alpha_IsHowMuchOfAMixtureIsItsClients) {
  const PixelRounds shared = Ran("fedavg"), alone = Ran("ditto", {{"lambda", 0.0}});
  for (const double alpha : {0.1, 1.0}) {
    const PixelRounds run = Ran("apfl", {{"alpha", alpha}});
    EXPECT_EQ(run.versions, shared.versions) << alpha;
    const bool same = KeptVector(run, 0, {"own", "mixture"}, 1) == KeptVector(alone, 0, {"personal"}, 0);
    EXPECT_EQ(same, alpha == 1) << alpha;
  }
}

// However large a client's gradient is, it has one vote; and where votes are even, a weight stays.
TEST(LocalTraining, SignSgd_MovesEveryWeightByOneLengthOrNot) {
  Scenario scenario = PixelScenario("signsgd");
  scenario.server.learning_rate = 0.25;
  ASSERT_OK_AND_ASSIGN(const PixelRounds run, RunPixels(scenario, 1));
  const std::vector<float> base = testing::WeightsOfModel(*testing::FourPixelsBase(*run.plan));
  const std::vector<float> now = testing::WeightsOfModel(*run.server.model);
  int moved = 0, stayed = 0;
  for (size_t i = 0; i < base.size(); ++i) {
    const double move = std::abs(static_cast<double>(now[i]) - base[i]);
    EXPECT_TRUE(move == 0 || std::abs(move - 0.25) < 1e-6) << i << " " << move;
    ++(move == 0 ? stayed : moved);
  }
  EXPECT_GT(moved, 0);
  EXPECT_GT(stayed, 0) << "two clients are of two minds somewhere";
}

TEST(LocalTraining, WhatTheyCannotDo_IsRefusedByItsKey) {
  Scenario adam = PixelScenario("fednova");
  adam.client.optimizer.kind = "adam";
  EXPECT_THAT(ErrorOf(RunPixels(adam, 1)), HasSubstr("needs client.optimizer.kind = \"sgd\", not \"adam\""));
  adam.algorithm.name = "mimelite";
  EXPECT_THAT(ErrorOf(RunPixels(adam, 1)), HasSubstr("client.optimizer.kind = \"sgd\""));
  Scenario unknown = PixelScenario("feddyn");
  unknown.data.partition.clients = 0;
  EXPECT_THAT(ErrorOf(RunPixels(unknown, 1)), HasSubstr("data.partition.clients"));
  for (const char* algorithm : {"fedsgd", "signsgd"}) {
    Scenario piped = PixelScenario(algorithm);
    piped.client.input_graph = "input.pb";
    EXPECT_THAT(ErrorOf(RunPixels(piped, 1)), HasSubstr("client.input_graph"));
  }
  ASSERT_OK_AND_ASSIGN(const ModelLayout statistics, ModelLayout::Create(std::vector<VariableSpec>{
                                                         {"w", {DType::kFloat32, {7}}, Segment::kTrainable},
                                                         {"mean", {DType::kFloat32, {2}}, Segment::kShared}}));
  EXPECT_THAT(ErrorOf(Compose(PixelScenario("q_fedavg"), statistics)), HasSubstr("running statistics of this model"));
}

// Whoever folds measures it: what a client says of that name is nobody's concern.
TEST(MeasuredScalar, SquaredNorm_IsSummedByWeightWhateverIsDeclared) {
  AggregationSpec spec = testing::Spec(2);
  spec.scalars = {{kSquaredNorm, "examples"}};
  auto aggregation = testing::Make(spec);
  std::vector<testing::TestUpdate> updates = {{"a", {3, 4}, 2}, {"b", {0.5f, 0}, 4, {{kSquaredNorm, 1e9}}}};
  for (testing::TestUpdate& update : updates) {
    ASSERT_OK(aggregation->Take(update.view(), {.parts = {update.weight}, .scalars = {update.weight}}));
  }
  ASSERT_OK_AND_ASSIGN(const ServerInput input, std::move(*aggregation).Finish());
  EXPECT_EQ(input.scalars.at(kSquaredNorm), 2 * 25 + 4 * 0.25);
}

}  // namespace
}  // namespace rivulet
