#include "federated/server_optimizers/server_optimizer.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <optional>

#include "federated/server_optimizers/averaged.h"
#include "federated/settings/made_piece.h"
#include "federated/settings/registered_piece.h"
#include "federated/settings/setting_tables.h"
#include "federated/weights/following_digest.h"

namespace rivulet {
namespace {

constexpr char kKind[] = "server optimizer";

// Elements of a tensor that are stepped at a time: what the next version's digest may go on with.
constexpr size_t kStretch = 64 << 10;
// Bytes of a model that is hashed on a thread of its own while it is made; of a smaller one the thread would cost more.
constexpr size_t kWorthAThread = 1 << 20;

// Made at first use and never destroyed: registrations of other files run before main in an order that nobody knows.
std::map<std::string, ServerOptimizerFactory, std::less<>>& OptimizersByName() {
  static auto* const optimizers = new std::map<std::string, ServerOptimizerFactory, std::less<>>;
  return *optimizers;
}

std::span<float> FloatsOf(AlignedBuffer& buffer) {
  return {reinterpret_cast<float*>(buffer.data()), buffer.size() / sizeof(float)};
}

// The trainable ones, in wire order.
void CopyWeights(const Model& model, std::span<float> to) {
  for (const Slice& slice : model.layout().slices()) {
    if (slice.segment != Segment::kTrainable) continue;
    std::ranges::copy(model.tensor(slice).flat<float>(), to.begin() + slice.wire_offset);
  }
}

// Models that begin as one stay one: whoever is to choose between them sees no difference.
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
  auto model = std::make_shared<Model>(base.model->shared_layout(), Model::First::kOverwritten);
  // For a stretch of the mean, which is near while it is used.
  const auto room =
      std::make_unique_for_overwrite<float[]>(std::min(kStretch, static_cast<size_t>(layout.update_elements())));
  std::optional<FollowingDigest> digest;
  if (model->arena().size() >= kWorthAThread) digest.emplace(*model);
  for (const Slice& slice : layout.slices()) {
    const TensorView from = base.model->tensor(slice), to = model->tensor(slice);
    if (slice.segment != Segment::kTrainable && slice.segment != Segment::kShared) {
      if (from.bytes() > 0) std::memcpy(to.data, from.data, from.bytes());
      continue;
    }
    const auto elements = static_cast<size_t>(slice.elements);
    for (size_t first = 0; first < elements; first += kStretch) {
      const size_t begin = static_cast<size_t>(slice.wire_offset) + first, count = std::min(kStretch, elements - first);
      flats_here.clear();
      means_here.clear();
      if (slice.segment == Segment::kTrainable) {  // first in wire order, so that offsets there are those of flats too
        for (const std::span<float> flat : whole) flats_here.push_back(flat.subspan(begin, count));
        for (const std::span<const float> part : means) {
          means_here.push_back(part.empty() ? part : part.subspan(begin, count));
        }
      }
      const ServerStep step = {slice.segment,
                               learning_rate,
                               slice.segment == Segment::kTrainable ? factor : 1,
                               from.flat<float>().subspan(first, count),
                               mean.At(static_cast<int64_t>(begin), {room.get(), count}),
                               to.flat<float>().subspan(first, count),
                               flats_here,
                               means_here};
      if (!optimizer.Step(step)) {
        return FailedPrecondition(
            "the new model is not finite in '{}'; lower server.learning_rate ({:g}) or the clients' own", slice.name,
            learning_rate);
      }
      if (digest) digest->Made(slice.offset + (first + count) * sizeof(float));
    }
  }
  ServerState next;
  next.digest = digest ? digest->Finish() : model->ComputeDigest();
  next.model = std::move(model);
  if (!flats.empty()) next.flats = std::make_shared<const ServerFlats>(std::move(flats));
  return next;
}

}  // namespace rivulet
