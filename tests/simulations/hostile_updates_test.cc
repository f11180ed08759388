// Clients that lie, in every algorithm and every codec: an update that is changed at random after it was made, and
// whose identity is that of what was sent, is folded or refused with a sentence. What is refused leaves no trace; what
// is folded is within the plan's bounds, and others' updates stay what they are.
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "coordinator/intake/intake.h"
#include "coordinator/intake/round_accumulator.h"
#include "engine/models/freeze.h"
#include "engine/presets/presets.h"
#include "federated/algorithms/algorithm.h"
#include "federated/codecs/codec.h"
#include "federated/random/streams.h"
#include "federated/settings/setting_tables.h"
#include "federated/states/state_blob.h"
#include "proto/federated/update.pb.h"
#include "tests/testing/partial_bytes.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

// What reaches memory that is not its own, divides by nothing or counts twice shows within a few hundred changes of a
// message; RIVULET_HOSTILE_UPDATES takes more.
int Changes() {
  const char* given = std::getenv("RIVULET_HOSTILE_UPDATES");
  return given == nullptr ? 150 : std::atoi(given);
}

// RIVULET_HOSTILE_SEED draws other changes (test.sh --hostile).
unsigned Seed(unsigned test) {
  const char* given = std::getenv("RIVULET_HOSTILE_SEED");
  const unsigned seed = given == nullptr ? 1 : static_cast<unsigned>(std::strtoul(given, nullptr, 10));
  fmt::print("RIVULET_HOSTILE_SEED={}\n", seed);
  return seed + test;
}

Scenario ScenarioOf(const std::string& algorithm, const std::string& codec) {
  Scenario scenario;
  scenario.run.name = "hostile";
  scenario.model.preset = "logistic_regression";
  scenario.data.partition.clients = 9;
  scenario.server.clients_per_round = 4;
  scenario.algorithm.name = algorithm;
  scenario.update.codec = codec;
  if (algorithm == "fedper" || algorithm == "fedrep" || algorithm == "fedbn") {
    scenario.model.preset = "mlp";
    scenario.model.personal = {"dense3/*"};
    scenario.evaluation.every = 0;
  }
  if (algorithm == "dp_fedavg") {
    scenario.privacy.clip = 0.5;
    scenario.algorithm.settings["noise_source"] = std::string("seeded");
  }
  return scenario;
}

// As a client makes it: every part with small values, everything that is to be declared.
proto::Update MadeFor(const AggregationSpec& spec, std::mt19937& random) {
  proto::Update update;
  auto& scalars = *update.mutable_scalars();
  if (spec.parts[0].only_where) scalars[spec.parts[0].only_where->scalar] = spec.parts[0].only_where->value;
  const Scalars chosen(scalars.begin(), scalars.end());
  for (const PartSpec& part : spec.parts) {
    if (!IsIn(part, chosen)) continue;
    std::vector<float> values(static_cast<size_t>(part.elements));
    std::normal_distribution<float> normal(0, 1e-3f);
    for (float& value : values) value = normal(random);
    const FloatRun run{values.data(), nullptr, part.elements};
    Draws draws(StreamFor(random(), "", Purpose::kSynthesize, 0), 0);
    std::string bytes;
    (*Codec::Create(part.codec, part.elements, part.codec_settings))->Encode({&run, 1}, draws, bytes);
    proto::UpdatePart* const made = update.add_parts();
    made->set_name(part.name);
    made->set_data(std::move(bytes));
  }
  scalars["examples"] = 1 + random() % 100;
  scalars["steps"] = 1 + random() % 10;
  for (const ScalarSpec& scalar : spec.scalars) scalars[scalar.name] = 1;
  for (const PartSpec& part : spec.parts) {
    if (part.weigh.starts_with("scalar:")) scalars[part.weigh.substr(7, part.weigh.find(' ') - 7)] = 1;
  }
  return update;
}

double OddNumber(std::mt19937& random) {
  constexpr std::array kOdd = {0.0,
                               -0.0,
                               -1.0,
                               0.5,
                               1e300,
                               -1e300,
                               1e19,
                               9007199254740993.0,
                               65536.,
                               65537.,
                               1e-320,
                               1e-30,
                               4e9,
                               -4e9,
                               std::numeric_limits<double>::infinity(),
                               -1e9,
                               std::nan("")};
  return kOdd[random() % kOdd.size()];
}

// One change, of the message or of its bytes.
std::string Changed(const proto::Update& good, std::mt19937& random) {
  proto::Update update = good;
  const auto part = [&]() -> proto::UpdatePart* {
    return update.parts().empty()
               ? update.add_parts()
               : update.mutable_parts(static_cast<int>(random() % static_cast<size_t>(update.parts_size())));
  };
  switch (random() % 12) {
    case 0: {  // some bytes
      std::string& data = *part()->mutable_data();
      for (size_t n = 1 + random() % 4; n > 0 && !data.empty(); --n)
        data[random() % std::min<size_t>(data.size(), random() % 2 ? 64 : data.size())] = static_cast<char>(random());
      break;
    }
    case 1: {  // shorter
      std::string& data = *part()->mutable_data();
      data.resize(data.empty() ? 0 : random() % data.size());
      break;
    }
    case 2:  // longer
      part()->mutable_data()->append(1 + random() % 9, static_cast<char>(random()));
      break;
    case 3: {  // words that are odd floats: NaN, infinities, the largest, the smallest, what only looks like an index
      constexpr std::array<uint32_t, 8> kWords = {0x7fc00000, 0x7f800000, 0xff800000, 0x7f7fffff,
                                                  0x00000001, 0xffffffff, 0x80000000, 0x4f000000};
      std::string& data = *part()->mutable_data();
      if (data.size() < 4) break;
      const size_t at = random() % 3 == 0 ? 0 : random() % (data.size() - 3);
      std::memcpy(data.data() + at, &kWords[random() % kWords.size()], 4);
      break;
    }
    case 4:
      part()->mutable_data()->assign(part()->data().size(), static_cast<char>(random() % 2 ? 0xff : 0x7f));
      break;
    case 5:
      if (!update.parts().empty()) update.mutable_parts()->RemoveLast();
      break;
    case 6:
      *update.add_parts() = *part();
      break;
    case 7:
      part()->set_name(random() % 2 ? "" : "delta\n\x1b[31m");
      break;
    case 8:
      (*update.mutable_scalars())[random() % 2 ? "examples" : "steps"] = OddNumber(random);
      break;
    case 9: {
      auto& scalars = *update.mutable_scalars();
      auto chosen = scalars.begin();
      std::advance(chosen, random() % scalars.size());
      if (random() % 3 == 0) {
        scalars.erase(chosen->first);
      } else {
        chosen->second = OddNumber(random);
      }
      break;
    }
    case 10: {
      std::string bytes = update.SerializeAsString();
      for (size_t n = 1 + random() % 3; n > 0; --n)
        bytes[random() % std::min<size_t>(bytes.size(), random() % 2 ? 40 : bytes.size())] =
            static_cast<char>(random());
      return bytes;
    }
    default: {
      std::string bytes = update.SerializeAsString();
      return random() % 2 ? bytes.substr(0, random() % bytes.size()) : bytes + bytes.substr(0, random() % bytes.size());
    }
  }
  return update.SerializeAsString();
}

struct Counts {
  int folded = 0, refused = 0;
};

// Many lie, two do not; what is gathered is what those who were folded make together, whoever was refused between.
Counts Lie(const Scenario& scenario, std::mt19937& random) {
  Counts counts;
  auto model = Preset(scenario.model.preset);
  EXPECT_OK(model);
  EXPECT_OK(MakePersonal(*model, scenario.model.personal));
  const auto plan = ComposePlan(scenario, *model);
  EXPECT_OK(plan);
  if (!plan.ok()) return counts;
  AggregationSpec spec = (*plan)->aggregation();
  const int changes = Changes();
  spec.updates_per_version = changes + 2;
  if (!ValidateSpec(spec).ok()) return counts;
  spec.most_norm = scenario.privacy.clip;
  std::vector<std::string> sent;
  const proto::Update honest = MadeFor(spec, random);
  for (int i = 0; i < changes; ++i) sent.push_back(Changed(honest, random));
  sent.front() = honest.SerializeAsString();
  sent.push_back(MadeFor(spec, random).SerializeAsString());

  const auto take = [&](RoundAccumulator& pot, size_t i) -> Status {
    Upload::Whole whole;
    whole.bytes = std::as_bytes(std::span(sent[i]));
    whole.submission.task = fmt::format("task-{:05}", i);
    RIVULET_ASSIGN_OR_RETURN(const ArrivedUpdate update, ReadUpdate(whole));
    RIVULET_ASSIGN_OR_RETURN(const Aggregation::Taken taken, pot.Take(update.view(0)));
    EXPECT_TRUE(std::isfinite(taken.norm)) << i;
    return absl::OkStatus();
  };
  RoundAccumulator all(*Aggregation::Create(spec)), those(*Aggregation::Create(spec));
  std::vector<size_t> folded;
  for (size_t i = 0; i < sent.size(); ++i) {
    const Status status = take(all, i);
    if (status.ok()) {
      folded.push_back(i);
    } else {
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << Message(status);
      EXPECT_FALSE(Message(status).empty());
      for (const char c : Message(status)) EXPECT_GE(static_cast<unsigned char>(c), 0x20) << Message(status);
    }
  }
  EXPECT_EQ(folded.front(), 0u);
  EXPECT_EQ(folded.back(), sent.size() - 1);
  for (auto i = folded.rbegin(); i != folded.rend(); ++i) EXPECT_OK(take(those, *i));
  counts.folded = static_cast<int>(folded.size());
  counts.refused = static_cast<int>(sent.size()) - counts.folded;
  const auto gathered = all.Close(), alone = those.Close();
  EXPECT_EQ(testing::BytesOf(spec, gathered->Extract(0)), testing::BytesOf(spec, alone->Extract(0)));
  return counts;
}

TEST(HostileUpdates, OfEveryAlgorithm_AreFoldedOrRefusedWithoutATrace) {
  std::mt19937 random(Seed(19));
  for (const Algorithm* algorithm : Algorithms()) {
    SCOPED_TRACE(algorithm->name);
    const Counts counts = Lie(ScenarioOf(algorithm->name, Scenario().update.codec), random);
    EXPECT_GT(counts.refused, 0);
    fmt::print("{}: {} folded, {} refused\n", algorithm->name, counts.folded, counts.refused);
  }
}

TEST(HostileUpdates, OfEveryCodec_AreFoldedOrRefusedWithoutATrace) {
  std::mt19937 random(Seed(20));
  for (const std::string& codec : SettingTableNames("codec")) {
    SCOPED_TRACE(codec);
    Scenario scenario = ScenarioOf("fedavg", codec);
    scenario.update.settings["fraction"] = 0.1;
    for (const bool clipped : {false, true}) {
      if (clipped) {
        scenario.privacy.clip = 0.5;
        scenario.update.error_feedback = false;
      }
      const Counts counts = Lie(scenario, random);
      EXPECT_GT(counts.refused, 0);
      fmt::print("{}{}: {} folded, {} refused\n", codec, clipped ? ", clipped" : "", counts.folded, counts.refused);
    }
  }
}

// What a client keeps comes back to it, and to nobody else; a site that shares no disk sends it all the same.
TEST(HostileUpdates, StatesThatAreChanged_AreToldFromWholeOnes) {
  std::mt19937 random(Seed(21));
  std::vector<float> one(300, 0.5f), two(7, -1);
  const std::vector<NamedState> state = {{"left", one}, {"momentum", two}};
  const std::string good = WriteState(state);
  ASSERT_TRUE(IsWholeState(good));
  int whole = 0;
  for (int i = 0; i < 40 * Changes(); ++i) {
    std::string bytes = good;
    switch (random() % 3) {
      case 0:
        bytes[random() % bytes.size()] = static_cast<char>(random());
        break;
      case 1:
        bytes.resize(random() % bytes.size());
        break;
      default:
        bytes.append(1 + random() % 64, static_cast<char>(random()));
    }
    if (bytes == good) continue;
    whole += IsWholeState(bytes);
    EXPECT_EQ(ReadState(bytes, state).ok(), IsWholeState(bytes));
  }
  EXPECT_EQ(whole, 0);
}

}  // namespace
}  // namespace rivulet
