#include "simulations/attacks/adversaries.h"

#include <cmath>

#include "engine/models/input_list.h"
#include "federated/random/lazy_permutation.h"
#include "federated/random/streams.h"
#include "simulations/attacks/canary.h"

namespace rivulet {
namespace {

// Tasks of an asynchronous run start from several models at the same time.
constexpr size_t kModels = 16;

// A data set with every example changed by Attack::Poison.
class PoisonedDataset final : public Dataset {
 public:
  PoisonedDataset(std::shared_ptr<const Dataset> dataset, const Attack& attack, const StreamKey& stream)
      : dataset_(std::move(dataset)), attack_(attack), stream_(stream) {}
  int64_t size() const override { return dataset_->size(); }
  Status Read(int64_t index, std::string& buffer) const override {
    RIVULET_RETURN_IF_ERROR(dataset_->Read(index, buffer));
    return Annotate(attack_.Poison(buffer, Draws(stream_, static_cast<uint32_t>(index))), Where(index));
  }
  std::string Where(int64_t index) const override { return dataset_->Where(index); }

 private:
  const std::shared_ptr<const Dataset> dataset_;
  const Attack& attack_;
  const StreamKey stream_;
};

}  // namespace

StatusOr<std::unique_ptr<const Attack>> AttackOf(const Scenario& scenario) {
  Attack::Features features;
  if (!scenario.data.input_feature.empty()) features.image = scenario.data.input_feature;
  RIVULET_ASSIGN_OR_RETURN(const std::vector<InputSpec> inputs, InputsFromTables(scenario.model.inputs));
  if (!inputs.empty()) features.image = inputs[0].feature.empty() ? inputs[0].name : inputs[0].feature;
  features.label = scenario.data.label_feature;
  return Attack::Create(scenario.attack.name, scenario.attack.settings, std::move(features));
}

StatusOr<std::unique_ptr<const Adversaries>> Adversaries::Create(const Scenario& scenario, bool keeps_state,
                                                                 std::shared_ptr<const Dataset> dataset,
                                                                 std::shared_ptr<const Shares> shares) {
  const AttackConfig& config = scenario.attack;
  auto made = std::unique_ptr<Adversaries>(new Adversaries(dataset, shares, scenario.data.name));
  RIVULET_ASSIGN_OR_RETURN(made->attack_, AttackOf(scenario));
  made->seed_ = scenario.run.seed;
  const int64_t clients = shares->size();
  const int64_t attackers = std::llround(config.fraction * static_cast<double>(clients));
  made->attackers_.resize(static_cast<size_t>(clients));
  if (made->attack_->colluders() > 0 && keeps_state) {
    return FailedPrecondition(
        "attack.name = \"{}\": its attackers train for each other, and with algorithm.name = \"{}\" clients keep "
        "something from task to task; choose another of the two",
        config.name, scenario.algorithm.name);
  }
  LazyPermutation drawn(Draws(StreamFor(made->seed_, "", Purpose::kAttack), 0), clients);
  for (int64_t i = 0; i < attackers; ++i) {
    const int64_t client = *drawn.Next();
    made->attackers_[static_cast<size_t>(client)] = true;
    if (i < made->attack_->colluders()) made->colluders_.push_back(shares->NameAt(client));
  }
  if (made->attack_->poisons_data()) {
    // A separate stream from that of the choice of attackers.
    made->poisoned_ = std::make_shared<PoisonedDataset>(std::move(dataset), *made->attack_,
                                                        StreamFor(made->seed_, "", Purpose::kAttack, 1));
  }
  return std::unique_ptr<const Adversaries>(std::move(made));
}

bool Adversaries::Attacks(std::string_view client_id) const {
  const std::optional<int64_t> client = shares_->Find(client_id);
  return client.has_value() && attackers_[static_cast<size_t>(*client)];
}

StatusOr<BoundData> Adversaries::Of(std::string_view client_id) const {
  RIVULET_ASSIGN_OR_RETURN(BoundData data, data_.Of(client_id));
  if (poisoned_ != nullptr && Attacks(client_id)) data.dataset = poisoned_;
  return data;
}

Status Adversaries::Change(const Task& task, const TrainFn& train, std::vector<float>& values) const {
  if (attack_->keeps_to_client()) {
    return attack_->Change(values, DrawsOfAttacker(task.stream_key), [&] { return BenignUpdatesFor(task, train); });
  }
  const StreamKey stream =
      StreamFor(task.stream_key, Purpose::kAttack, static_cast<uint32_t>(task.base_version), task.ordinal);
  return attack_->Change(values, Draws(stream, 0), [&] { return BenignUpdatesFor(task, train); });
}

// The colluders train as if each were drawn for this model for the first time. So their shared estimate does not depend
// on which of them was drawn, or in which order.
StatusOr<Adversaries::Benign> Adversaries::BenignUpdatesFor(const Task& task, const TrainFn& train) const {
  const NamedBlob* const model = task.input("model");
  if (model == nullptr) return InvalidArgument("task {} names no model to start from", task.id);
  MutexLock lock(mutex_);
  for (const auto& [digest, benign] : benign_) {
    if (digest == model->id.digest) return benign;
  }
  auto benign = std::make_shared<BenignUpdates>();
  std::vector<double>& squares = benign->deviation;
  for (const std::string& colluder : colluders_) {
    Task own = task;
    own.client_id = colluder;
    own.stream_key = ClientKey(seed_, colluder);
    own.ordinal = 0;
    RIVULET_ASSIGN_OR_RETURN(const std::vector<float> delta, train(own));
    benign->mean.resize(delta.size());
    squares.resize(delta.size());
    for (size_t i = 0; i < delta.size(); ++i) {
      benign->mean[i] += delta[i];
      squares[i] += double{delta[i]} * delta[i];
    }
  }
  const auto n = static_cast<double>(colluders_.size());
  for (size_t i = 0; i < squares.size(); ++i) {
    double& mean = benign->mean[i];
    mean /= n;
    squares[i] = std::sqrt(std::max(0.0, squares[i] / n - mean * mean));
  }
  if (benign_.size() == kModels) benign_.erase(benign_.begin());
  benign_.emplace_back(model->id.digest, benign);
  return Benign(benign);
}

}  // namespace rivulet
