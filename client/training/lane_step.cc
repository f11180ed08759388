#include "client/training/lane_step.h"

#include <algorithm>
#include <utility>

#include "engine/tensor/spec_bytes.h"

namespace rivulet {
namespace {

// Values of a block: with its sums and its base, it fits the fastest cache.
constexpr int64_t kBlockValues = 4096;
// Rows of a weight matrix in a register block with the widest vectors; narrower ones have half of it.
constexpr int64_t kBlockUnits = 12;

size_t Aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

class LaneStep::LanePart final : public MadePart {
 public:
  LanePart(const LaneStep& step, const Part& part, int lane) : step_(step), part_(part), lane_(lane) {}
  const Part& part() const { return part_; }
  int64_t elements() const override { return part_.elements; }
  size_t blocks() const override { return part_.blocks.size(); }
  FloatRun Make(size_t block) const override { return step_.Make(part_.blocks[block], lane_); }

 private:
  const LaneStep& step_;
  const Part& part_;
  const int lane_;
};

LaneStep::LaneStep(std::shared_ptr<const LaneProgram> program) : program_(std::move(program)) {}
LaneStep::~LaneStep() = default;

std::unique_ptr<LaneStep> LaneStep::Create(std::shared_ptr<const LaneProgram> program,
                                           std::span<const PartPlaces> parts) {
  for (const TensorSpec& spec : program->fetch_specs()) {
    if (!(spec == TensorSpec{DType::kFloat32, Shape{}})) return nullptr;
  }
  auto step = std::unique_ptr<LaneStep>(new LaneStep(std::move(program)));
  int64_t largest = 0;
  for (const PartPlaces& part : parts) {
    Part& made = step->parts_.emplace_back(Part{part.name, 0, {}});
    for (const RunPlace& place : part.places) {
      if (!step->AddBlocks(place, made)) return nullptr;
    }
    for (const Block& block : made.blocks) largest = std::max(largest, block.count);
  }
  size_t lane_bytes = Aligned(step->program_->arena_bytes());
  const size_t feeds = step->program_->signature().feeds.size();
  for (size_t i = 0; i < feeds; ++i) lane_bytes += Aligned(step->FeedBytes(i));
  step->most_ = static_cast<int>(std::min<size_t>(kMostLanes, kMostBytes / std::max<size_t>(lane_bytes, 1)));
  if (step->most_ < 2 || parts.empty()) return nullptr;
  step->bytes_ = static_cast<size_t>(step->most_) * lane_bytes;
  step->instances_.resize(static_cast<size_t>(step->most_) + 1);
  step->fetched_.assign(step->program_->fetch_specs().size(), std::vector<float>(static_cast<size_t>(step->most_)));
  step->values_.resize(static_cast<size_t>(largest));
  for (int lane = 0; lane < step->most_; ++lane) {
    for (const Part& part : step->parts_) step->made_.push_back(std::make_unique<LanePart>(*step, part, lane));
  }
  return step;
}

// A place is the result of some of the program's updates, one after another, less their initial values.
bool LaneStep::AddBlocks(const RunPlace& place, Part& part) const {
  if (place.less < 0) return false;
  const std::span<const LaneUpdate> updates = program_->updates();
  int64_t done = 0;
  while (done < place.count) {
    const size_t at = place.offset + static_cast<size_t>(done) * sizeof(float);
    const auto update = std::ranges::find_if(updates, [&](const LaneUpdate& candidate) {
      return candidate.buffer == place.from && candidate.offset == at && candidate.unit > 0;
    });
    if (update == updates.end() || update->elements > place.count - done) return false;
    const int64_t step = update->unit * kBlockUnits * std::max<int64_t>(1, kBlockValues / (kBlockUnits * update->unit));
    for (int64_t first = 0; first < update->elements; first += step) {
      part.blocks.push_back({static_cast<size_t>(update - updates.begin()), first,
                             std::min(step, update->elements - first), place.less,
                             at + static_cast<size_t>(first) * sizeof(float)});
    }
    done += update->elements;
  }
  part.elements += done;
  return true;
}

size_t LaneStep::FeedBytes(size_t feed) const { return TensorBytes(program_->signature().feeds[feed].spec); }

std::vector<TensorView> LaneStep::Feeds(int lane, int lanes) const {
  std::vector<TensorView> views;
  std::byte* at = memory_ + static_cast<size_t>(lanes) * Aligned(program_->arena_bytes());
  for (size_t i = 0; i < program_->signature().feeds.size(); ++i) {
    const TensorSpec& spec = program_->signature().feeds[i].spec;
    views.push_back({at + static_cast<size_t>(lane) * FeedBytes(i), spec.dtype, spec.shape});
    at += static_cast<size_t>(lanes) * Aligned(FeedBytes(i));
  }
  return views;
}

Status LaneStep::Run(int lanes, std::span<const Buffer> buffers, const CancellationToken& cancel) {
  std::unique_ptr<LaneInstance>& instance = instances_[static_cast<size_t>(lanes)];
  if (instance == nullptr) instance = program_->Instantiate(lanes);
  const std::vector<TensorView> feeds = Feeds(0, lanes);
  std::vector<TensorView> fetches;
  for (std::vector<float>& values : fetched_) {
    fetches.push_back({reinterpret_cast<std::byte*>(values.data()), DType::kFloat32, Shape{}});
  }
  buffers_.assign(buffers.begin(), buffers.end());
  Bindings bindings;
  bindings.arena = memory_;
  bindings.buffers = buffers_;
  bindings.feeds = feeds;
  bindings.fetches = fetches;
  bindings.lanes = lanes;
  RIVULET_RETURN_IF_ERROR(instance->Run(bindings, cancel));
  ran_ = instance.get();
  return absl::OkStatus();
}

std::vector<float> LaneStep::Scalars(int lane) const {
  std::vector<float> values;
  for (const std::vector<float>& fetched : fetched_) values.push_back(fetched[static_cast<size_t>(lane)]);
  return values;
}

std::vector<PartView> LaneStep::Parts(int lane) const {
  std::vector<PartView> views;
  for (size_t part = 0; part < parts_.size(); ++part) {
    const LanePart& made = *made_[static_cast<size_t>(lane) * parts_.size() + part];
    views.push_back({.name = made.part().name, .made = &made});
  }
  return views;
}

FloatRun LaneStep::Make(const Block& block, int lane) const {
  ran_->Make(lane, block.update, block.first, block.count, values_.data());
  const std::byte* const less = buffers_[static_cast<size_t>(block.less)].data + block.offset;
  return {values_.data(), reinterpret_cast<const float*>(less), block.count};
}

}  // namespace rivulet
