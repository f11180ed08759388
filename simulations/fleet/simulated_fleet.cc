#include "simulations/fleet/simulated_fleet.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "engine/base/file_system.h"
#include "federated/random/streams.h"

namespace rivulet {
namespace {

// Operations of a device's stream. Those of its tasks are of the stream of their base version and ordinal.
enum Op : uint32_t { kCompute, kDownload, kUpload, kAvailability, kPhase, kDelay = 16, kFailure };

constexpr VirtualTime kForever = std::numeric_limits<VirtualTime>::max() / 4;
constexpr double kMostSeconds = 1e9;  // of one task: nothing is awaited for thirty years

VirtualTime Microseconds(double seconds) { return std::llround(std::clamp(seconds, 0.0, kMostSeconds) * 1e6); }

}  // namespace

StatusOr<std::shared_ptr<const SimulatedFleet>> SimulatedFleet::Create(const DevicesConfig& config, uint64_t seed,
                                                                       std::shared_ptr<const Population> names,
                                                                       WorkOf work, FileSystem& fs) {
  std::shared_ptr<SimulatedFleet> fleet(new SimulatedFleet);
  struct Named {
    const char* key;
    const std::string& text;
    std::optional<Law>& law;
  };
  const Named laws[] = {{"devices.compute", config.compute, fleet->compute_},
                        {"devices.download", config.download, fleet->download_},
                        {"devices.upload", config.upload, fleet->upload_},
                        {"devices.delay", config.delay, fleet->delay_},
                        {"devices.failure", config.failure, fleet->failure_},
                        {"devices.availability", config.availability, fleet->availability_}};
  for (const auto& [key, text, law] : laws) {
    if (text.empty()) continue;
    RIVULET_ASSIGN_OR_RETURN(law, Law::Parse(text, key));
  }
  fleet->period_ = std::max<VirtualTime>(Microseconds(config.period_seconds), 1);
  if (!config.trace.empty()) {
    RIVULET_ASSIGN_OR_RETURN(const std::string csv, fs.ReadAll(config.trace));
    RIVULET_ASSIGN_OR_RETURN(fleet->trace_, DeviceTrace::Parse(csv, config.trace, fleet->period_));
  }
  fleet->seed_ = seed;
  fleet->names_ = std::move(names);
  fleet->work_ = std::move(work);
  return std::shared_ptr<const SimulatedFleet>(std::move(fleet));
}

double SimulatedFleet::OfClient(const std::optional<Law>& law, uint32_t op, const std::string& client_id,
                                double none) const {
  return law ? law->Draw(Draws(StreamFor(seed_, client_id, Purpose::kDevice), op)) : none;
}

// When in each period its part begins.
VirtualTime SimulatedFleet::FirstOf(const std::string& client_id) const {
  const double phase = Draws(StreamFor(seed_, client_id, Purpose::kDevice), kPhase).Uniform();
  return static_cast<VirtualTime>(phase * static_cast<double>(period_));
}

// A part of each period, that may go over its end; or the lines of its trace.
std::optional<DeviceSpan> SimulatedFleet::SpanAt(const std::string& client_id, VirtualTime at) const {
  const VirtualTime began = at / period_ * period_, within = at - began;
  if (const std::vector<DeviceSpan>* spans = trace_ ? trace_->Find(client_id) : nullptr; spans != nullptr) {
    for (const DeviceSpan& span : *spans) {
      if (span.from > within || within >= span.until) continue;
      DeviceSpan now = span;
      now.from += began;
      now.until += began;
      return now;
    }
    return std::nullopt;
  }
  if (!availability_) return DeviceSpan{0, kForever};
  const double share = std::min(OfClient(availability_, kAvailability, client_id, 1), 1.0);
  if (share >= 1) return DeviceSpan{0, kForever};
  const auto lasts = static_cast<VirtualTime>(share * static_cast<double>(period_));
  const VirtualTime first = FirstOf(client_id);
  // Of the part that began in this period, or of the one before.
  const VirtualTime from = within >= first ? began + first : began + first - period_;
  if (at >= from + lasts) return std::nullopt;
  return DeviceSpan{from, from + lasts};
}

bool SimulatedFleet::IsThere(const std::string& client_id, VirtualTime at) const {
  return SpanAt(client_id, at).has_value();
}

double SimulatedFleet::SecondsOf(const std::string& client_id, const DeviceSpan& span) const {
  const TaskWork work = work_(client_id);
  const auto seconds = [&](double amount, double given, const std::optional<Law>& law, Op op) {
    const double speed = given > 0 ? given : OfClient(law, op, client_id, 0);
    if (given == 0 && !law) return 0.0;  // nothing says that it takes time
    return speed > 0 ? std::min(amount / speed, kMostSeconds) : kMostSeconds;
  };
  return seconds(static_cast<double>(work.bytes_down), span.download, download_, kDownload) +
         seconds(work.operations, span.compute, compute_, kCompute) +
         seconds(static_cast<double>(work.bytes_up), span.upload, upload_, kUpload);
}

Fleet::Course SimulatedFleet::CourseOf(const std::string& client_id, int64_t base_round, uint16_t ordinal,
                                       VirtualTime at) const {
  const std::optional<DeviceSpan> span = SpanAt(client_id, at);
  if (!span) return {at, true};
  const StreamKey stream = StreamFor(seed_, client_id, Purpose::kDevice, static_cast<uint32_t>(base_round), ordinal);
  const auto drawn = [&](const std::optional<Law>& law, Op op) { return law ? law->Draw(Draws(stream, op)) : 0.0; };
  const VirtualTime ends = at + Microseconds(SecondsOf(client_id, *span) + drawn(delay_, kDelay));
  const VirtualTime gone = std::min(span->until, failure_ ? at + Microseconds(drawn(failure_, kFailure)) : kForever);
  return gone < ends ? Course{gone, true} : Course{ends, false};
}

std::optional<VirtualTime> SimulatedFleet::NextBack(VirtualTime at) const {
  std::optional<VirtualTime> next;
  const auto take = [&](VirtualTime back) {
    if (!next || back < *next) next = back;
  };
  const VirtualTime began = at / period_ * period_;
  for (int64_t rank = 0; rank < names_->size(); ++rank) {
    const std::string client_id = names_->NameAt(rank);
    if (SpanAt(client_id, at)) continue;
    if (const std::vector<DeviceSpan>* spans = trace_ ? trace_->Find(client_id) : nullptr; spans != nullptr) {
      const auto later = std::ranges::upper_bound(*spans, at - began, {}, &DeviceSpan::from);
      take(later != spans->end() ? began + later->from : began + period_ + spans->front().from);
      continue;
    }
    const VirtualTime first = FirstOf(client_id);
    take(began + first > at ? began + first : began + first + period_);
  }
  return next;
}

VirtualTime SimulatedFleet::TypicalTask(const std::string& client_id) const {
  const DeviceSpan* traced = nullptr;
  if (const auto* const spans = trace_ ? trace_->Find(client_id) : nullptr; spans != nullptr) traced = &spans->front();
  const double seconds = SecondsOf(client_id, traced == nullptr ? DeviceSpan() : *traced);
  return std::max<VirtualTime>(Microseconds(seconds + (delay_ ? delay_->mean() : 0)), 1);
}

}  // namespace rivulet
