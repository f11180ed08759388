#include "simulations/fleet/simulated_fleet.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

#include "engine/base/file_system.h"
#include "federated/random/streams.h"

namespace rivulet {
namespace {

// Operations of a device's stream. Draws of its tasks use the stream of their base version and ordinal.
enum Op : uint32_t { kCompute, kDownload, kUpload, kAvailability, kPhase, kDelay = 16, kFailure, kServer };

constexpr VirtualTime kForever = std::numeric_limits<VirtualTime>::max() / 4;
constexpr double kMostSeconds = 1e9;  // of one task: nothing waits for thirty years

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
                        {"devices.availability", config.availability, fleet->availability_},
                        {"devices.server", config.server, fleet->server_}};
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

// The begin of its part in each period.
VirtualTime SimulatedFleet::FirstOf(const std::string& client_id) const {
  const double phase = Draws(StreamFor(seed_, client_id, Purpose::kDevice), kPhase).Uniform();
  return static_cast<VirtualTime>(phase * static_cast<double>(period_));
}

// A part of each period, which may extend beyond its end; or the lines of its trace.
std::optional<DeviceSpan> SimulatedFleet::SpanAt(const std::string& client_id, VirtualTime at) const {
  const VirtualTime began = at / period_ * period_, within = at - began;
  if (const std::vector<DeviceSpan>* spans = trace_ ? trace_->Find(client_id) : nullptr; spans != nullptr) {
    const auto later = std::ranges::upper_bound(*spans, within, {}, &DeviceSpan::from);
    if (later == spans->begin() || within >= std::prev(later)->until) return std::nullopt;
    DeviceSpan now = *std::prev(later);
    now.from += began;
    now.until += began;
    return now;
  }
  if (!availability_) return DeviceSpan{0, kForever};
  const double share = std::min(OfClient(availability_, kAvailability, client_id, 1), 1.0);
  if (share >= 1) return DeviceSpan{0, kForever};
  const auto lasts = static_cast<VirtualTime>(share * static_cast<double>(period_));
  const VirtualTime first = FirstOf(client_id);
  // The part that began in this period, or in the previous one.
  const VirtualTime from = within >= first ? began + first : began + first - period_;
  if (at >= from + lasts) return std::nullopt;
  return DeviceSpan{from, from + lasts};
}

bool SimulatedFleet::IsThere(const std::string& client_id, VirtualTime at) const {
  return SpanAt(client_id, at).has_value();
}

double SimulatedFleet::SecondsOf(const std::string& client_id, const TaskWork& work, const DeviceSpan& span) const {
  const auto seconds = [&](double amount, double given, const std::optional<Law>& law, Op op) {
    const double speed = given > 0 ? given : OfClient(law, op, client_id, 0);
    if (given == 0 && !law) return 0.0;  // no setting gives it a duration
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
  const TaskWork work = work_(client_id, TaskOfClient{base_round, ordinal});
  const VirtualTime ends = at + Microseconds(SecondsOf(client_id, work, *span) + drawn(delay_, kDelay));
  const VirtualTime gone = std::min(span->until, failure_ ? at + Microseconds(drawn(failure_, kFailure)) : kForever);
  return gone < ends ? Course{gone, true} : Course{ends, false};
}

// Uses the stream of the empty name, which no client has.
VirtualTime SimulatedFleet::VersionTime(int64_t round) const {
  if (!server_) return 0;
  const StreamKey stream = StreamFor(seed_, "", Purpose::kDevice, static_cast<uint32_t>(round));
  return Microseconds(server_->Draw(Draws(stream, kServer)));
}

const std::vector<SimulatedFleet::Beginning>& SimulatedFleet::beginnings() const {
  std::call_once(beginnings_made_, [this] {
    for (int64_t rank = 0; rank < names_->size(); ++rank) {
      const std::string client_id = names_->NameAt(rank);
      if (const std::vector<DeviceSpan>* spans = trace_ ? trace_->Find(client_id) : nullptr; spans != nullptr) {
        for (const DeviceSpan& span : *spans) beginnings_.push_back({span.from, rank});
      } else if (availability_) {
        beginnings_.push_back({FirstOf(client_id), rank});
      }
    }
    std::ranges::sort(beginnings_, {}, &Beginning::at);
  });
  return beginnings_;
}

// The first beginning after `at`, in this period or the next, of a device that is away until then. Devices that are
// available are skipped: if most are, nothing has to wait, and if few are, it is found at once.
std::optional<VirtualTime> SimulatedFleet::NextBack(VirtualTime at) const {
  const std::vector<Beginning>& all = beginnings();
  const VirtualTime began = at / period_ * period_;
  const auto away = [&](const Beginning& next) { return !SpanAt(names_->NameAt(next.rank), at); };
  const auto later = std::ranges::upper_bound(all, at - began, {}, &Beginning::at);
  if (const auto next = std::find_if(later, all.end(), away); next != all.end()) return began + next->at;
  if (const auto next = std::find_if(all.begin(), later, away); next != later) return began + period_ + next->at;
  return std::nullopt;
}

VirtualTime SimulatedFleet::TypicalTask(const std::string& client_id) const {
  const DeviceSpan* traced = nullptr;
  if (const auto* const spans = trace_ ? trace_->Find(client_id) : nullptr; spans != nullptr) traced = &spans->front();
  const TaskWork work = work_(client_id, std::nullopt);
  const double seconds = SecondsOf(client_id, work, traced == nullptr ? DeviceSpan() : *traced);
  return std::max<VirtualTime>(Microseconds(seconds + (delay_ ? delay_->mean() : 0)), 1);
}

}  // namespace rivulet
