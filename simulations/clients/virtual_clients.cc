#include "simulations/clients/virtual_clients.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/base/sha256.h"
#include "engine/tensor/spec_bytes.h"
#include "simulations/attacks/adversaries.h"
#include "simulations/attacks/shared_data.h"

namespace rivulet {
namespace {

constexpr int64_t kSampled = 64;  // of records, and of clients, evenly spaced

// Calls `look` for kSampled of `count`, or for all if there are fewer.
template <typename Look>
Status ForSample(int64_t count, const Look& look) {
  for (int64_t i = 0; i < std::min(count, kSampled); ++i) {
    RIVULET_RETURN_IF_ERROR(look(count <= kSampled ? i : i * (count - 1) / (kSampled - 1)));
  }
  return absl::OkStatus();
}

}  // namespace

StatusOr<std::unique_ptr<VirtualClients>> VirtualClients::Create(RunSetup& setup, bool keeps_state,
                                                                 std::shared_ptr<ArtifactCache> artifacts) {
  RIVULET_ASSIGN_OR_RETURN(const auto dataset, setup.training_data());
  RIVULET_ASSIGN_OR_RETURN(const auto shares, setup.shares());
  if (artifacts == nullptr) artifacts = std::make_shared<ArtifactCache>("", setup.row_budget());
  RIVULET_ASSIGN_OR_RETURN(const std::shared_ptr<const Base> base, setup.base());
  if (base != nullptr) {
    if (artifacts->bases() == nullptr) artifacts->UseBases(std::make_shared<BaseStore>());
    artifacts->bases()->Give(base);
  }
  std::unique_ptr<VirtualClients> clients(new VirtualClients(dataset, shares, std::move(artifacts)));
  if (setup.scenario().attack.name.empty()) {
    clients->data_ = std::make_unique<SharedData>(dataset, shares, setup.scenario().data.name);
    return clients;
  }
  RIVULET_ASSIGN_OR_RETURN(auto adversaries, Adversaries::Create(setup.scenario(), keeps_state, dataset, shares));
  clients->attack_ = adversaries.get();
  clients->data_ = std::move(adversaries);
  return clients;
}

Status VirtualClients::CheckFirstExample(const Plan& plan) const {
  RIVULET_ASSIGN_OR_RETURN(const auto decoder, ExampleDecoder::Create(plan.features()));
  std::vector<AlignedBuffer> memory;
  std::vector<TensorView> feeds;
  for (const FeedSpec& feed : decoder->FeedSpecs(1)) {
    memory.emplace_back(TensorBytes(feed.spec));
    feeds.push_back({memory.back().data(), feed.spec.dtype, feed.spec.shape});
  }
  const uint32_t first = 0;
  const Status decoded = DatasetExamples(dataset_, std::nullopt, decoder).Decode({&first, 1}, feeds);
  // Users with their own data meet this error first, and have to fit the scenario to them.
  if (!absl::IsInvalidArgument(decoded)) return decoded;
  return InvalidArgument(
      "{}. data.input_feature and data.label_feature name the model's input and label; model.input, or model.inputs of "
      "a graph, gives its shape and kind: pixels, values or tokens",
      Message(decoded));
}

Status VirtualClients::CheckWeights(const AggregationSpec& aggregation) const {
  if (!aggregation.weighs_examples()) return absl::OkStatus();
  for (int64_t client = 0; client < shares_->size(); ++client) {
    const auto examples = static_cast<int64_t>(shares_->ExamplesOf(client).size());
    if (examples <= aggregation.max_weight) continue;
    return InvalidArgument("client '{}' has {} examples, and server.max_weight is {}; raise it",
                           shares_->NameAt(client), examples, aggregation.max_weight);
  }
  return absl::OkStatus();
}

StatusOr<std::string> VirtualClients::Fingerprint() const {
  Sha256 hash;
  hash.Update(
      fmt::format("{} records, {} clients of {} examples", dataset_->size(), shares_->size(), shares_->examples()));
  std::string record;
  RIVULET_RETURN_IF_ERROR(ForSample(dataset_->size(), [&](int64_t index) -> Status {
    RIVULET_RETURN_IF_ERROR(dataset_->Read(index, record));
    hash.Update(fmt::format("{} ", record.size())).Update(record);
    return absl::OkStatus();
  }));
  RIVULET_RETURN_IF_ERROR(ForSample(shares_->size(), [&](int64_t client) -> Status {
    hash.Update(fmt::format("{}:", shares_->NameAt(client)));
    for (const uint32_t example : shares_->ExamplesOf(client)) hash.UpdateU32(example);
    return absl::OkStatus();
  }));
  return std::move(hash).Finish().Hex();
}

}  // namespace rivulet
