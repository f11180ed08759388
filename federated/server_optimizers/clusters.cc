// Several models; each moves by the mean of the changes of clients that chose it (Ghosh et al. 2020, arXiv:2006.04088,
// algorithm 1): with Δ_j the mean of part j,
//
//   w_j ← w_j + server.learning_rate · Δ_j
//
// The first is the run's model, of the part "delta"; the others are stored as "server/cluster_1", … with parts of the
// same names. A model that no client chose is unchanged. Each has different random initial values.
#include "federated/server_optimizers/server_optimizer.h"

namespace rivulet {
namespace {

class ServerClusters final : public ServerOptimizer {
 public:
  explicit ServerClusters(int64_t clusters) {
    for (int64_t i = 1; i < clusters; ++i) names_.push_back(fmt::format("cluster_{}", i));
  }

  std::vector<Flat> Flats() const override {
    std::vector<Flat> flats;
    for (const std::string& name : names_) flats.push_back({.name = fmt::format("server/{}", name), .drawn = true});
    return flats;
  }
  std::vector<std::string> Models() const override { return names_; }
  std::vector<std::string> Parts() const override { return names_; }

  bool Step(const ServerStep& step) const override {
    bool finite = Move(step.params, step.mean, step.learning_rate, step.next);
    if (step.segment == Segment::kShared) return finite;
    for (size_t i = 0; i < names_.size(); ++i) {
      if (step.parts[i].empty()) continue;
      finite &= Move(step.flats[i], step.parts[i], step.learning_rate, step.flats[i]);
    }
    return finite;
  }

 private:
  static bool Move(std::span<const float> from, std::span<const float> mean, double rate, std::span<float> to) {
    uint32_t bad = 0;
    for (size_t i = 0; i < to.size(); ++i) {
      to[i] = static_cast<float>(static_cast<double>(from[i]) + rate * static_cast<double>(mean[i]));
      bad |= IsNotFinite(to[i]) ? 1 : 0;
    }
    return bad == 0;
  }

  std::vector<std::string> names_;
};

RIVULET_SERVER_OPTIMIZER(server_clusters_registration, "clusters",
                         {Integer("clusters", 2, "How many models there are.").Between(2, 8)},
                         [](const Settings& settings) -> StatusOr<std::unique_ptr<const ServerOptimizer>> {
                           return std::make_unique<ServerClusters>(settings.integer("clusters"));
                         });

}  // namespace
}  // namespace rivulet
