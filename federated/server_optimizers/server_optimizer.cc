#include "federated/server_optimizers/server_optimizer.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/base/check.h"
#include "engine/base/large_pages.h"
#include "federated/server_optimizers/averaged.h"
#include "federated/settings/made_piece.h"
#include "federated/settings/registered_piece.h"
#include "federated/settings/setting_tables.h"
#include "federated/weights/following_digest.h"

namespace rivulet {
namespace {

constexpr char kKind[] = "server optimizer";

// Elements of a tensor per step: the unit in which the next version's digest can continue.
constexpr size_t kStretch = 64 << 10;
// Bytes from which a model is hashed on a separate thread while it is made; for less the thread costs more.
constexpr size_t kWorthAThread = 1 << 20;

// Created at first use and never destroyed: registrations of other files run before main in an unspecified order.
std::map<std::string, ServerOptimizerFactory, std::less<>>& OptimizersByName() {
  static auto* const optimizers = new std::map<std::string, ServerOptimizerFactory, std::less<>>;
  return *optimizers;
}

std::span<float> FloatsOf(AlignedBuffer& buffer) {
  return {reinterpret_cast<float*>(buffer.data()), buffer.size() / sizeof(float)};
}

// Copies the trainable tensors to wire order.
void CopyWeights(const Model& model, std::span<float> to) {
  for (const Slice& slice : model.layout().slices()) {
    if (slice.segment != Segment::kTrainable) continue;
    std::ranges::copy(model.tensor(slice).flat<float>(), to.begin() + slice.wire_offset);
  }
}

// The next model while it is made. A large model is written over the sums that it is computed from, after they were
// read, so it needs no further memory. With padding, tensors may precede the read position; their values wait.
class NextModel {
 public:
  // `mean` must outlive it.
  NextModel(std::shared_ptr<const ModelLayout> layout, const VersionMean& mean) : mean_(mean) {
    const VersionMean::Room& room = mean.room();
    const size_t bytes = layout->arena_bytes();
    over_sums_ = bytes >= kWorthAThread && room.data != nullptr && bytes <= room.bytes;
    model_ = over_sums_ ? std::make_shared<Model>(std::move(layout), room.data)
                        : std::make_shared<Model>(std::move(layout), Model::First::kOverwritten);
    if (bytes >= kWorthAThread) digest_.emplace(*model_);
  }

  Model& model() { return *model_; }
  // Reports that the first `elements` values of the mean were read.
  void Read(int64_t elements) {
    if (!over_sums_) return;
    free_ = mean_.FreeBytes(elements);
    while (!waiting_.empty() && waiting_.front().end() <= free_) {
      std::ranges::copy(waiting_.front().bytes, model_->arena().begin() + static_cast<ptrdiff_t>(waiting_.front().at));
      waiting_.pop_front();
    }
  }
  // Memory for the arena's bytes from `at` on: their place, or a buffer while they wait. Valid until the next call.
  std::span<std::byte> Place(size_t at, size_t bytes) {
    if (!over_sums_ || (waiting_.empty() && at + bytes <= free_)) return model_->arena().subspan(at, bytes);
    return waiting_.emplace_back(at, std::vector<std::byte>(bytes)).bytes;
  }
  // Reports that all bytes up to `end` are in their final places.
  void Written(size_t end) {
    if (digest_) digest_->Made(waiting_.empty() ? end : waiting_.front().at);
  }
  // Call when all is read and written; returns the model with its digest.
  std::pair<std::shared_ptr<const Model>, Digest> Finish() {
    RIVULET_CHECK(waiting_.empty());
    if (digest_) digest_->Made(model_->arena().size());
    const Digest digest = digest_ ? digest_->Finish() : model_->ComputeDigest();
    if (over_sums_) {
      model_->ClearPadding();
      GiveBackBehind(model_->arena().size());
    }
    return {std::move(model_), digest};
  }

 private:
  struct Waiting {
    Waiting(size_t begin, std::vector<std::byte> values) : at(begin), bytes(std::move(values)) {}
    size_t end() const { return at + bytes.size(); }
    size_t at;
    std::vector<std::byte> bytes;
  };

  // Returns memory of the sums beyond the model to the system, in whole large pages.
  void GiveBackBehind(size_t bytes) const {
    constexpr uintptr_t kPage = LargePages<std::byte>::kPage, kSmall = 4096;
    const auto data = reinterpret_cast<uintptr_t>(mean_.room().data.get());
    const uintptr_t from = (data + bytes + kPage - 1) / kPage * kPage;
    const uintptr_t to = (data + mean_.room().bytes) / kSmall * kSmall;
    if (from < to) madvise(mean_.room().data.get() + (from - data), to - from, MADV_DONTNEED);
  }

  const VersionMean& mean_;
  bool over_sums_ = false;
  size_t free_ = 0;  // bytes of the arena that may be overwritten
  std::deque<Waiting> waiting_;
  std::shared_ptr<Model> model_;
  std::optional<FollowingDigest> digest_;  // destroyed before the model that it reads
};

// Refuses draws equal to the model: models with equal initial values never separate.
Status DrawWeights(const Model& model, const std::string& flat, const DrawModel& draw, std::span<float> to) {
  if (draw == nullptr)
    return FailedPrecondition("'{}' starts as a draw of the model, but no draws are available", flat);
  RIVULET_ASSIGN_OR_RETURN(const std::shared_ptr<const Model> drawn, draw(flat));
  CopyWeights(*drawn, to);
  std::vector<float> first(to.size());
  CopyWeights(model, first);
  if (!std::ranges::equal(to, first)) return absl::OkStatus();
  return InvalidArgument(
      "the model's first values are the same by every draw, so '{}' would begin as the first model and always equal "
      "it; give a layer an initializer that draws",
      flat);
}

}  // namespace

ServerOptimizerRegistration::ServerOptimizerRegistration(const char* name, std::vector<Setting> settings,
                                                         ServerOptimizerFactory factory) {
  RegisterPiece(kKind, name, [=, name = std::string(name)] {
    SettingTableRegistration({kKind, name, settings});
    OptimizersByName().emplace(name, factory);
  });
}

StatusOr<std::unique_ptr<const ServerOptimizer>> ServerOptimizer::Create(const PieceSpec& piece, double average) {
  RIVULET_ASSIGN_OR_RETURN(const SettingTable* table, FindSettingTable(kKind, piece.name));
  RIVULET_ASSIGN_OR_RETURN(const Settings settings,
                           Settings::Read(table->settings, piece.settings, fmt::format("{} '{}'", kKind, piece.name)));
  RIVULET_ASSIGN_OR_RETURN(auto optimizer, MadePiece(kKind, piece.name, OptimizersByName().at(piece.name)(settings)));
  return average > 0 ? Averaged(std::move(optimizer), average) : std::move(optimizer);
}

StatusOr<ServerState> FirstState(std::shared_ptr<const Model> model, const ServerOptimizer& optimizer,
                                 const DrawModel& draw) {
  ServerState state;
  ServerFlats flats;
  const auto elements = static_cast<size_t>(model->layout().elements(Segment::kTrainable));
  for (const ServerOptimizer::Flat& flat : optimizer.Flats()) {
    if (model->layout().Find(flat.name) != nullptr) {
      return InvalidArgument("the model has a variable '{}', and the server keeps a vector of that name; rename it",
                             flat.name);
    }
    AlignedBuffer values(elements * sizeof(float));
    std::ranges::fill(FloatsOf(values), flat.first);
    if (flat.from_model) CopyWeights(*model, FloatsOf(values));
    if (flat.drawn) RIVULET_RETURN_IF_ERROR(DrawWeights(*model, flat.name, draw, FloatsOf(values)));
    flats.emplace(flat.name, std::move(values));
  }
  state.digest = model->ComputeDigest();
  state.model = std::move(model);
  if (!flats.empty()) state.flats = std::make_shared<const ServerFlats>(std::move(flats));
  return state;
}

Status CheckState(const ServerState& state, const ServerOptimizer& optimizer) {
  const std::vector<ServerOptimizer::Flat> flats = optimizer.Flats();
  for (const ServerOptimizer::Flat& flat : flats) {
    if (state.flat(flat.name).empty()) return DataLoss("it has no '{}', which the server needs to resume", flat.name);
  }
  const size_t found = state.flats == nullptr ? 0 : state.flats->size();
  if (found != flats.size()) {
    return DataLoss("it has {} vectors of the server, which needs {} to resume", found, flats.size());
  }
  return absl::OkStatus();
}

StatusOr<ServerState> NextState(const ServerState& base, const ServerOptimizer& optimizer, double learning_rate,
                                VersionMean&& mean, const PartMeans& parts, const VersionSums& sums) {
  const ModelLayout& layout = base.model->layout();
  if (mean.elements() == 0 && layout.update_elements() > 0) {
    const auto zeros = [](int64_t, std::span<float> values) { std::ranges::fill(values, 0.0f); };
    return NextState(base, optimizer, learning_rate, VersionMean(layout.update_elements(), zeros), parts, sums);
  }
  if (mean.elements() != layout.update_elements()) {
    return InvalidArgument("a mean delta of {} elements does not fit a model whose updates have {}", mean.elements(),
                           layout.update_elements());
  }
  std::vector<std::span<const float>> means, means_here;
  for (const std::string& name : optimizer.Parts()) {
    const auto found = parts.find(name);
    const size_t elements = found == parts.end() ? 0 : found->second.size();
    const bool left_out = found != parts.end() && found->second.empty();
    if (static_cast<int64_t>(elements) != layout.parameters() && !left_out) {
      return InvalidArgument("the server takes {} elements of part '{}', and the updates have {}", layout.parameters(),
                             name, elements);
    }
    means.push_back(found->second);
  }
  const double factor = optimizer.Factor(mean, sums);
  ServerFlats flats;
  std::vector<std::span<float>> whole, flats_here;
  for (const ServerOptimizer::Flat& flat : optimizer.Flats()) {
    const std::span<const float> before = base.flat(flat.name);
    AlignedBuffer& values = flats.emplace(flat.name, AlignedBuffer(before.size_bytes())).first->second;
    whole.push_back(FloatsOf(values));
    std::ranges::copy(before, whole.back().begin());
  }
  NextModel made(base.model->shared_layout(), mean);
  made.Read(0);
  // For a stretch of the mean, which stays in the cache while it is used.
  const auto room =
      std::make_unique_for_overwrite<float[]>(std::min(kStretch, static_cast<size_t>(layout.update_elements())));
  for (const Slice& slice : layout.slices()) {
    const TensorView from = base.model->tensor(slice);
    if (slice.segment != Segment::kTrainable && slice.segment != Segment::kShared) {
      const std::span<std::byte> to = made.Place(slice.offset, from.bytes());
      if (from.bytes() > 0) std::memcpy(to.data(), from.data, from.bytes());
      made.Written(slice.offset + from.bytes());
      continue;
    }
    const auto elements = static_cast<size_t>(slice.elements);
    for (size_t first = 0; first < elements; first += kStretch) {
      const size_t begin = static_cast<size_t>(slice.wire_offset) + first, count = std::min(kStretch, elements - first);
      flats_here.clear();
      means_here.clear();
      if (slice.segment == Segment::kTrainable) {  // first in wire order, so offsets in flats are the same
        for (const std::span<float> flat : whole) flats_here.push_back(flat.subspan(begin, count));
        for (const std::span<const float> part : means) {
          means_here.push_back(part.empty() ? part : part.subspan(begin, count));
        }
      }
      const std::span<const float> mean_here = mean.At(static_cast<int64_t>(begin), {room.get(), count});
      made.Read(static_cast<int64_t>(begin + count));
      const size_t at = slice.offset + first * sizeof(float), end = at + count * sizeof(float);
      const std::span<std::byte> to = made.Place(at, end - at);
      const ServerStep step = {slice.segment,
                               learning_rate,
                               slice.segment == Segment::kTrainable ? factor : 1,
                               from.flat<float>().subspan(first, count),
                               mean_here,
                               {reinterpret_cast<float*>(to.data()), count},
                               flats_here,
                               means_here};
      if (!optimizer.Step(step)) {
        return FailedPrecondition(
            "the new model is not finite in '{}'; lower server.learning_rate ({:g}) or the clients' own", slice.name,
            learning_rate);
      }
      made.Written(end);
    }
  }
  ServerState next;
  made.Read(mean.elements());
  std::tie(next.model, next.digest) = made.Finish();
  if (!flats.empty()) next.flats = std::make_shared<const ServerFlats>(std::move(flats));
  return next;
}

}  // namespace rivulet
