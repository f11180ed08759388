// "arithmetic": the same sums without keys, for simulations. Words travel as they are, so the coordinator reads each.
#include <algorithm>
#include <set>

#include "federated/secure/protocol.h"

namespace rivulet::secure {
namespace {

class ArithmeticClient final : public SecureClient {
 public:
  StatusOr<std::string> Answer(int step, std::string_view) override {
    return FailedPrecondition("secure aggregation by arithmetic has no step {} beside its sum", step);
  }
  Status Mask(std::string_view, std::span<std::byte>) override {
    if (answered_) return FailedPrecondition("this task's words were given before; a task is answered once");
    answered_ = true;
    return absl::OkStatus();
  }
  const std::string& revocation_list() const override { return none_; }

 private:
  const std::string none_;
  bool answered_ = false;
};

class ArithmeticServer final : public SecureServer {
 public:
  explicit ArithmeticServer(int64_t min_survivors) : min_survivors_(min_survivors) {}
  int step() const override { return closed_ ? 1 : 0; }
  Status Accept(std::string_view client, std::string_view) override {
    if (closed_) return FailedPrecondition("the sum is closed; '{}' was late", client);
    if (!clients_.insert(std::string(client)).second) return AlreadyExists("'{}' has given its words before", client);
    return absl::OkStatus();
  }
  int64_t answers() const override { return static_cast<int64_t>(clients_.size()); }
  void Keep(const std::set<std::string, std::less<>>&) override {}
  Status Close() override {
    if (closed_) return FailedPrecondition("the sum is closed already");
    if (answers() < min_survivors_) {
      return FailedPrecondition("the words of {} clients came, and the plan asks for {}", answers(), min_survivors_);
    }
    closed_ = true;
    return absl::OkStatus();
  }
  StatusOr<std::string> InputFor(std::string_view) const override { return ""; }
  std::vector<std::string> Survivors() const override { return {clients_.begin(), clients_.end()}; }
  bool CanUnmask() const override { return closed_; }
  Status Unmask(std::span<std::byte>) override { return absl::OkStatus(); }
  std::vector<BadShare> BadShares() const override { return {}; }

 private:
  const int64_t min_survivors_;
  std::set<std::string, std::less<>> clients_;
  bool closed_ = false;
};

StatusOr<std::unique_ptr<SecureClient>> MakeArithmeticClient(const ClientSetup& setup) {
  RIVULET_RETURN_IF_ERROR(CheckPolicy(setup.settings, setup.policy));
  return std::make_unique<ArithmeticClient>();
}

StatusOr<std::unique_ptr<SecureServer>> MakeArithmeticServer(const ServerSetup& setup) {
  return std::make_unique<ArithmeticServer>(setup.settings.min_survivors);
}

RIVULET_SECURE_PROTOCOL(arithmetic_registration,
                        {.name = "arithmetic",
                         .doc = "The sums of secure aggregation without keys: hides nothing, for simulations only.",
                         .steps = 1,
                         .sum_step = 0,
                         .hides = false,
                         .make_client = MakeArithmeticClient,
                         .make_server = MakeArithmeticServer});

}  // namespace
}  // namespace rivulet::secure
