#include "cli/run/client_preflight.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "certificates/certificate.h"
#include "cli/run/findings.h"
#include "cli/run/proxy.h"
#include "client/agent/eligibility.h"
#include "client/agent/plan_facts.h"
#include "client/agent/secure_tasks.h"
#include "client/training/device/gpu_trainer.h"
#include "client/training/pass_programs.h"
#include "client/training/planned_memory.h"
#include "engine/base/clock.h"
#include "engine/base/file_system.h"
#include "engine/data/dataset.h"
#include "federated/plan/example_source.h"
#include "federated/transport/grpc_client.h"

namespace rivulet {
namespace {

constexpr int64_t kMegabyte = 1'000'000;
constexpr int64_t kLeastDisk = 100 * kMegabyte;  // states, and the input of a plan's programs
constexpr int64_t kMostLookedAt = 1000;          // examples, checked against a plan
constexpr std::chrono::seconds kPatience{10};    // for the coordinator's answer

void LookAtState(const std::string& folder, Findings& findings) {
  if (const Status usable = CheckStateFolder(folder); !usable.ok()) return findings.Wrong("disk", usable);
  LookAtDisk(folder, kLeastDisk, "name another folder with --state", findings);
}

void LookAtMemory(const SitePolicy& policy, const Plan* plan, int64_t examples, Findings& findings) {
  const int64_t available = LookAtMachine().available_bytes;
  const bool known = available != std::numeric_limits<int64_t>::max();
  const std::string free = known ? fmt::format("{} MB free", available / kMegabyte) : "the free memory is unknown";
  if (known && policy.budget.memory_bytes > available) {
    return findings.Wrong(
        "memory", ResourceExhausted("{}, and the policy allows {}", free, policy.budget.memory_bytes / kMegabyte),
        "lower budget.memory_megabytes, or free memory of other processes");
  }
  if (plan == nullptr || plan->external()) return findings.Good("memory", free);
  EnterWorkerThread();
  PassPrograms programs(std::shared_ptr<const Plan>(std::shared_ptr<const Plan>(), plan));
  const StatusOr<PlannedMemory> planned = PlanMemory(programs, TaskKind::kTrain, examples);
  if (!planned.ok()) return findings.Wrong("memory", planned.status());
  const int64_t most = policy.budget.memory_bytes > 0 ? policy.budget.TaskBytes() : available;
  const std::string text = fmt::format("{}; a task takes {}", free, planned->ToString());
  if (planned->total() <= most) return findings.Good("memory", text);
  findings.Wrong("memory", ResourceExhausted("{}, and may take {} MB", text, most / kMegabyte),
                 "raise budget.memory_megabytes, or use a machine with more");
}

// Checks that the device exists and, if there is a plan too, that it can train it and has the memory.
void LookAtDevice(const DeviceOptions& asked, const std::shared_ptr<const Plan>& plan, int64_t examples,
                  Findings& findings) {
  const Status one = CheckOneGpu(asked.device, "a client trains");
  const StatusOr<TrainingDevice> on = one.ok() ? DeviceOf(asked) : one;
  if (!on.ok()) return findings.Wrong("device", on.status());
  if (on->device == nullptr) return;
  if (plan != nullptr && !plan->external()) {
    const auto trainer = NewGpuTrainer(std::make_shared<PassPrograms>(plan), *on);
    const Status can = trainer.ok() ? (*trainer)->CheckRoom(TaskKind::kTrain, examples) : trainer.status();
    if (absl::IsUnimplemented(can) && asked.soft) {
      return findings.Soon("device", fmt::format("trained on the processor: {}", Message(can)));
    }
    if (!can.ok()) return findings.Wrong("device", can);
  }
  findings.Good("device", fmt::format("{}, {} MB of which may be taken", on->device->properties().name,
                                      static_cast<int64_t>(on->device->bytes_limit()) / kMegabyte));
}

// Checks the first examples with the plan's decoder.
Status HoldAgainst(const Plan& plan, const Dataset& data) {
  RIVULET_ASSIGN_OR_RETURN(const auto decoder, ExampleDecoder::Create(plan.features()));
  std::vector<double> values(decoder->extracted_bytes() / sizeof(double) + 1);
  std::string example;
  for (int64_t i = 0; i < std::min(data.size(), kMostLookedAt); ++i) {
    RIVULET_RETURN_IF_ERROR(data.Read(i, example));
    const Status read = decoder->Extract(example, reinterpret_cast<std::byte*>(values.data()));
    if (!read.ok()) return Annotate(read, data.Where(i));
  }
  return absl::OkStatus();
}

void LookAtData(const StatusOr<std::vector<BoundData>>& bound, const Plan* plan, Findings& findings) {
  if (!bound.ok()) return findings.Wrong("data", bound.status());
  std::string text;
  for (const BoundData& data : *bound) {
    text += fmt::format("{}{} examples, bound to '{}'", text.empty() ? "" : "; ", data.size(), data.name);
  }
  if (plan == nullptr || plan->external()) return findings.Good("data", text);
  const BoundData* const data = FindBound(*bound, plan->dataset());
  if (data == nullptr) {
    return findings.Wrong("data", FailedPrecondition("the plan reads the data set '{}'", plan->dataset()),
                          fmt::format("bind it: --data {}=GLOB", plan->dataset()));
  }
  if (const Status fits = HoldAgainst(*plan, *data->dataset); !fits.ok()) {
    return findings.Wrong("data", fits,
                          "make these records as the plan reads them (docs/guide/own-data.md), or ask its author");
  }
  findings.Good("data", text + fmt::format("; the plan can read the first {}", std::min(data->size(), kMostLookedAt)));
}

void LookAtPlan(const SitePolicy& policy, const Plan& plan, Findings& findings) {
  if (const Status willing = CheckPlan(policy, plan); !willing.ok()) return findings.Wrong("plan", willing);
  const PlanAuthor author = AuthorOf(plan);
  findings.Good("plan", fmt::format("'{}', {}, may run here", plan.name(),
                                    author.text.empty() ? "unsigned" : "signed by " + author.text));
}

// One poll for no task: it checks name, port, proxy, both certificates, admission and protocol.
void LookAtCoordinator(const ClientOptions& options, const NetworkAddress& address, Security security,
                       const StatusOr<std::vector<BoundData>>& data, bool hides_examples, Findings& findings) {
  const StatusOr<std::string> proxy = ProxyFor(address);
  if (!proxy.ok()) return findings.Wrong("coordinator", proxy.status());
  const StatusOr<std::unique_ptr<GrpcClient>> connection =
      GrpcClient::Create({.coordinator = address,
                          .credentials = std::move(security.credentials),
                          .proxy = *proxy,
                          .call_timeout = kPatience});
  if (!connection.ok()) return findings.Wrong("coordinator", connection.status());
  PollRequest request;
  request.caller.name = security.name.empty() ? options.name : security.name;
  request.capabilities.version = RIVULET_VERSION;
  if (data.ok()) request.capabilities.datasets = OffersOf(*data);
  if (hides_examples) request.capabilities.datasets = WithoutNumbers(std::move(request.capabilities.datasets));
  request.want = 0;
  const StatusOr<PollReply> reply = (*connection)->Poll(request);
  if (absl::IsUnavailable(reply.status())) {
    return findings.Wrong("coordinator", reply.status(),
                          "check that it runs, and that no firewall or proxy (https_proxy) blocks the connection");
  }
  if (!reply.ok()) return findings.Wrong("coordinator", reply.status());
  findings.Good("coordinator",
                fmt::format("{} answers{}: {}", address.ToString(), proxy->empty() ? "" : " through the proxy",
                            reply->over                       ? reply->over->sentence
                            : reply->awaited.sentence.empty() ? "it knows this client"
                                                              : reply->awaited.sentence));
}

}  // namespace

Status PreflightClient(const ClientOptions& options) {
  Findings findings;
  const StatusOr<SitePolicy> read = PolicyOf(options);
  if (!read.ok()) findings.Wrong("policy", read.status());
  if (read.ok()) {
    findings.Good("policy", options.policy.empty() ? "none: any plan may run, at any time" : options.policy);
    if (const std::string why = WhyNotNow(read->when, LookAtMachine()); !why.empty()) findings.Soon("policy", why);
  }
  const SitePolicy policy = read.ok() ? *read : SitePolicy{};

  std::shared_ptr<const Plan> plan;
  if (!options.show_plan.empty() && options.show_plan != kOffered) {
    StatusOr<std::string> bytes = FileSystem::Default().ReadAll(options.show_plan);
    StatusOr<std::shared_ptr<const Plan>> opened =
        bytes.ok() ? Plan::Open(*std::move(bytes)) : StatusOr<std::shared_ptr<const Plan>>(bytes.status());
    if (opened.ok()) {
      plan = *std::move(opened);
      LookAtPlan(policy, *plan, findings);
    } else {
      findings.Wrong("plan", Annotate(opened.status(), options.show_plan));
    }
  }
  const StatusOr<std::vector<BoundData>> data = BindData(options.data, options.tags);
  LookAtData(data, plan.get(), findings);
  LookAtState(options.state, findings);
  const BoundData* const trained_on = data.ok() && plan != nullptr ? FindBound(*data, plan->dataset()) : nullptr;
  const int64_t examples = trained_on == nullptr ? 1 : trained_on->size();
  LookAtMemory(policy, plan.get(), examples, findings);
  LookAtDevice(options.device, plan, examples, findings);

  const StatusOr<NetworkAddress> address = ParseAddress(options.coordinator);
  if (!address.ok()) {
    findings.Wrong("coordinator", Annotate(address.status(), "--coordinator"));
    return findings.Print(options.json);
  }
  std::string soon;
  StatusOr<Security> security = SecurityOf(options.security, Role::kClient, *address, "",
                                           [&soon](const std::string& sentence) { soon = sentence; });
  const std::string today = TimeText(Clock::System().UnixMs() / 1000);
  if (!security.ok()) {
    // A certificate out of its period may be right, and the clock wrong.
    findings.Wrong("certificate", security.status(), fmt::format("this machine's clock is at {}", today));
    return findings.Print(options.json);
  }
  if (soon.empty()) {
    findings.Good("certificate", security->name.empty() ? "none, because of --insecure"
                                                        : fmt::format("client/{}, good at {}", security->name, today));
  } else {
    findings.Soon("certificate", soon);
  }
  LookAtCoordinator(options, *address, *std::move(security), data, policy.secure.asked(), findings);
  return findings.Print(options.json);
}

}  // namespace rivulet
