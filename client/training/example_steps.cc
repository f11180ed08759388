#include "client/training/example_steps.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numbers>
#include <utility>

#include "client/training/task_streams.h"
#include "client/training/task_work.h"
#include "engine/base/draws.h"
#include "engine/base/vlog.h"
#include "engine/kernels/cpu/vector/cpu_targets.h"

namespace rivulet {
namespace {

// For float32: the rounding of one operation, and the lowest slack.
constexpr double kRounding = 0x1p-24, kLeastFloatSlack = 0x1p-12;
// Operations of a norm and a factor besides the sums of squares: per variable, and for all of them.
constexpr int64_t kRoundingsOfVariable = 8, kRoundingsOfFactor = 16;
// One example's norm has so many bits in units. Rounding changes it by the root of the number of parameters.
constexpr int kNormBits = 30;

// All elements with a gradient: a client's own variables are clipped with the others.
int64_t TrainedElements(const ModelLayout& layout) {
  return layout.elements(Segment::kTrainable) + layout.elements(Segment::kLocal);
}

// The smallest number that a step's draw exceeds at most once in 2^100: P[X >= m] <= e^-(m ln(m / b) - m + b) for a sum
// of independent 0s and 1s with mean b (Chernoff).
int64_t MostDrawn(int64_t batch_size) {
  const auto mean = static_cast<double>(batch_size);
  auto most = static_cast<double>(batch_size);
  while (most * std::log(most / mean) - most + mean < 100 * std::numbers::ln2) ++most;
  return static_cast<int64_t>(most);
}

uint64_t WordAt(const Digest& digest, size_t word) {
  uint64_t value = 0;
  std::memcpy(&value, digest.AsBytes().data() + word * sizeof(value), sizeof(value));
  return value;
}

}  // namespace

double FloatSlackOf(const ModelLayout& layout, int64_t batch_size) {
  int64_t widest = 0, variables = 0;  // the longest sums of squares: over a weight's two sides
  for (const Slice& slice : layout.slices()) {
    if (!IsTrained(slice.segment)) continue;
    int64_t sides = 0;
    for (int axis = 0; axis < slice.spec.shape.rank(); ++axis) sides += slice.spec.shape.dim(axis);
    widest = std::max(widest, sides);
    ++variables;
  }
  const auto of_norm = static_cast<double>(widest + kRoundingsOfVariable * variables + kRoundingsOfFactor);
  // Per program of two neighbouring sums: R clips for each of R examples by the additions, and two by the products.
  const int64_t rows = ExampleRows(batch_size), programs = (MostDrawn(batch_size) + rows - 1) / rows;
  const auto of_sum = static_cast<double>(2 * programs * rows * (rows + 2));
  return std::max(kLeastFloatSlack, 1.01 * kRounding * (of_norm + of_sum));
}

StatusOr<ExampleUnits> ExampleUnitsOf(const ExampleNoise& noise, int64_t parameters, double float_slack) {
  ExampleUnits units;
  units.fraction_bits = kNormBits - static_cast<int>(std::ceil(std::log2(noise.clip)));
  units.norm = std::ceil(std::ldexp(noise.clip * (1 + float_slack), units.fraction_bits) +
                         std::sqrt(static_cast<double>(parameters)));
  RIVULET_ASSIGN_OR_RETURN(units.scale, privacy::NoiseScale::AtLeast(noise.multiplier * units.norm));
  return units;
}

int64_t ExampleStepsPerEpoch(int64_t batch_size, int64_t examples) { return (examples + batch_size - 1) / batch_size; }

privacy::NoisedRounds ExampleRounds(const ExampleUnits& units, int64_t parameters, int64_t batch_size, int64_t examples,
                                    int64_t steps) {
  privacy::NoisedRounds rounds = {.noise = privacy::NoiseLaw::kDiscreteGaussian,
                                  .multiplier = units.scale.value() / units.norm,
                                  .count = steps,
                                  .sensitivity = units.norm,
                                  .dimension = parameters};
  if (batch_size >= examples) return rounds;
  // Rounded up to 8 bits: clients of many sizes then share an accountant's answers.
  int exponent = 0;
  const double mantissa = std::frexp(static_cast<double>(batch_size) / static_cast<double>(examples), &exponent);
  rounds.rate = std::min(1.0, std::ldexp(std::ceil(std::ldexp(mantissa, 8)), exponent - 8));
  rounds.sampling = privacy::SamplingKind::kPoisson;
  return rounds;
}

StatusOr<privacy::NoisedRounds> ExampleRoundsOf(const Plan& plan, int64_t examples) {
  const LocalPass& pass = plan.training().passes.at(0);
  const int64_t parameters = TrainedElements(*plan.layout());
  RIVULET_ASSIGN_OR_RETURN(const ExampleUnits units, ExampleUnitsOf(*ExampleNoiseOf(plan), parameters,
                                                                    FloatSlackOf(*plan.layout(), pass.batch_size)));
  int64_t steps = ExampleStepsPerEpoch(pass.batch_size, examples) * pass.epochs;
  if (pass.max_steps > 0) steps = std::min(steps, pass.max_steps);
  return ExampleRounds(units, parameters, pass.batch_size, examples, steps);
}

Digest ExampleWorkOf(const Task& task, const Digest& data, const Plan& plan, std::string_view program) {
  Sha256 sha;
  sha.Update("rivulet example work 1").Update(WorkOf(task).AsBytes()).Update(data.AsBytes());
  sha.UpdateU64(program.size()).Update(program);
  sha.Update(plan.compile_options().kernels.portable ? "portable" : CpuTargetName());
  return std::move(sha).Finish();
}

StatusOr<privacy::NoiseKey> ExampleKeyOf(const privacy::NoiseKey& site, const Digest& work) {
  RIVULET_ASSIGN_OR_RETURN(privacy::NoiseKey key, site.Derive(WordAt(work, 0), privacy::NoisePurpose::kLocal));
  for (size_t word = 1; word < 4; ++word) {
    RIVULET_ASSIGN_OR_RETURN(key, key.Derive(WordAt(work, word), privacy::NoisePurpose::kLocal));
  }
  return key;
}

privacy::NoiseKey SeededExampleKey(const Task& task) {
  Draws draws(StreamOf(task, Purpose::kNoise), 0);
  privacy::NoiseKey::Bytes bytes{};
  for (size_t i = 0; i < bytes.size(); i += sizeof(uint64_t)) {
    const uint64_t word = draws.Word64();
    std::memcpy(bytes.data() + i, &word, sizeof(word));
  }
  return privacy::NoiseKey::FromBytes(bytes);
}

Status DrawExamples(const privacy::NoiseKey& task_key, uint64_t step, int64_t batch_size, int64_t examples,
                    std::vector<uint32_t>& drawn) {
  drawn.clear();
  RIVULET_ASSIGN_OR_RETURN(const privacy::NoiseKey key, task_key.Derive(step, privacy::NoisePurpose::kCohort));
  RIVULET_ASSIGN_OR_RETURN(privacy::NoiseStream stream, privacy::NoiseStream::Create(key, 0));
  for (int64_t i = 0; i < examples; ++i) {
    if (batch_size >= examples || stream.Below(static_cast<uint64_t>(examples)) < static_cast<uint64_t>(batch_size)) {
      drawn.push_back(static_cast<uint32_t>(i));
    }
  }
  return absl::OkStatus();
}

ExampleSteps::ExampleSteps(const Plan& plan, BoundPasses& passes, PassSteps& steps)
    : plan_(plan), passes_(passes), steps_(steps) {
  for (const Slice& slice : plan.layout()->slices()) {
    if (!IsTrained(slice.segment)) continue;
    variables_.emplace_back(slice.offset / sizeof(float), static_cast<size_t>(slice.spec.shape.elements()));
  }
}

// Rows of padding repeat the first example, so that no row has an odd value; their factor is 0.
Status ExampleSteps::Sum(LaneRun& lane, BoundProgram& program, std::span<const uint32_t> drawn,
                         std::span<float> grads) {
  std::ranges::fill(sum_, 0.0);
  const TensorView present = program.feeds.back();
  const auto rows = static_cast<size_t>(present.shape.dim(0));
  auto* const presence = reinterpret_cast<float*>(present.data);
  for (size_t first = 0; first < drawn.size(); first += rows) {
    const std::span<const uint32_t> some = drawn.subspan(first, std::min(rows, drawn.size() - first));
    rows_.assign(rows, some[0]);
    std::ranges::copy(some, rows_.begin());
    for (size_t row = 0; row < rows; ++row) presence[row] = row < some.size() ? 1.0f : 0.0f;
    RIVULET_RETURN_IF_ERROR(
        lane.examples.Decode(rows_, std::span<const TensorView>(program.feeds).first(program.feeds.size() - 1)));
    lane.bindings.feeds = program.feeds;
    const Status status = steps_.Run(lane, program);
    lane.bindings.feeds = {};
    RIVULET_RETURN_IF_ERROR(status);
    for (size_t i = 0; i < grads.size(); ++i) sum_[i] += static_cast<double>(grads[i]);
  }
  return absl::OkStatus();
}

Status ExampleSteps::AddNoise(const privacy::NoiseKey& task_key, uint64_t step, const ExampleUnits& units,
                              int64_t batch_size, std::span<float> grads) {
  RIVULET_ASSIGN_OR_RETURN(const privacy::NoiseKey key, task_key.Derive(step, privacy::NoisePurpose::kLocal));
  const privacy::DiscreteGaussian law(units.scale);
  noise_.assign(grads.size(), 0);
  RIVULET_RETURN_IF_ERROR(privacy::DrawNoise(key, law, 0, noise_));
  const double whole = std::ldexp(1.0, units.fraction_bits);
  const double unit = std::ldexp(1.0, -units.fraction_bits) / static_cast<double>(batch_size);
  // Padding between variables stays zero, as every rule expects.
  std::ranges::fill(grads, 0.0f);
  for (const auto& [first, count] : variables_) {
    for (size_t i = first; i < first + count; ++i) {
      const double rounded = std::nearbyint(sum_[i] * whole);
      if (!std::isfinite(rounded)) {
        return InvalidArgument("an example's gradient is not finite; lower the learning rate, or check the examples");
      }
      grads[i] = static_cast<float>((rounded + static_cast<double>(noise_[i])) * unit);
    }
  }
  return absl::OkStatus();
}

Status ExampleSteps::Run(LaneRun& lane, const BoundPass& bound, std::span<float> grads,
                         const privacy::NoiseKey& task_key) {
  const LocalPass& pass = *bound.pass;
  RIVULET_ASSIGN_OR_RETURN(const BoundPasses::ExampleStep programs, passes_.ByExample());
  const std::optional<ExampleNoise> noise = ExampleNoiseOf(plan_);
  RIVULET_ASSIGN_OR_RETURN(const ExampleUnits units, ExampleUnitsOf(*noise, TrainedElements(*plan_.layout()),
                                                                    FloatSlackOf(*plan_.layout(), pass.batch_size)));
  sum_.resize(grads.size());
  const uint64_t last = lane.LastStep(pass);
  const int64_t each = ExampleStepsPerEpoch(pass.batch_size, lane.size);
  for (; lane.MayBegin(pass, last); ++lane.at.epoch) {
    lane.BeginEpoch(pass);
    while (static_cast<int64_t>(lane.at.batches) < each && lane.at.step < last) {
      RIVULET_RETURN_IF_ERROR(DrawExamples(task_key, lane.at.step, pass.batch_size, lane.size, drawn_));
      RIVULET_RETURN_IF_ERROR(Sum(lane, *programs.sum, drawn_, grads));
      RIVULET_RETURN_IF_ERROR(AddNoise(task_key, lane.at.step, units, pass.batch_size, grads));
      RIVULET_RETURN_IF_ERROR(steps_.Run(lane, *programs.rule));
      lane.Count(pass, {}, std::ssize(drawn_));
      if (lane.checkpoint != nullptr && lane.checkpoint->Due()) lane.checkpoint->Keep(lane.at, lane.own);
    }
  }
  return absl::OkStatus();
}

}  // namespace rivulet
