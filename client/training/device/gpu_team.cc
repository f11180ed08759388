#include "client/training/device/gpu_team.h"

#include <algorithm>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include "client/training/device/device_trainers.h"
#include "client/training/device/gpu_device_part.h"
#include "client/training/device/gpu_trainer.h"
#include "client/training/pass_programs.h"
#include "engine/base/check.h"
#include "engine/gpu/gpu_sum.h"
#include "federated/aggregation/fixed_point.h"

namespace rivulet {
namespace {

constexpr char kRule[] = "mean";  // the only rule that is folded on a device

// The device of an update, and its number there.
struct Place {
  size_t device = 0;
  int32_t number = 0;
};

// Runs `work` with every number below `count` at once, the first in this thread.
template <typename Work>
void Each(size_t count, const Work& work) {
  std::vector<std::thread> others;
  for (size_t i = 1; i < count; ++i) others.emplace_back([&work, i] { work(i); });
  work(0);
  for (std::thread& other : others) other.join();
}

// One part of updates on several devices. An update's number is its task's.
class TeamPart final : public DevicePart {
 public:
  TeamPart(std::vector<const GpuDevicePart*> parts, const std::vector<Place>& places, GpuSum& sum)
      : parts_(std::move(parts)), places_(places), sum_(sum) {}

  int64_t elements() const override { return AnyPart().elements(); }
  std::string_view codec() const override { return AnyPart().codec(); }
  StatusOr<std::vector<Folded>> Fold(std::span<const int32_t> updates, std::span<const double> scales, int value_bits,
                                     int sign, std::span<int64_t> sums, std::span<FoldState> states) const override {
    return FoldInto(updates, scales, value_bits, sign, sums, states);
  }
  StatusOr<std::vector<Folded>> Fold(std::span<const int32_t> updates, std::span<const double> scales, int value_bits,
                                     int sign, std::span<int32_t> sums, std::span<FoldState> states) const override {
    return FoldInto(updates, scales, value_bits, sign, sums, states);
  }

 private:
  // The share of one device.
  struct Share {
    std::vector<size_t> which;  // of the updates
    std::vector<int32_t> numbers;
    std::vector<double> scales;
    std::vector<FoldState> states;
    StatusOr<std::vector<Folded>> folded = std::vector<Folded>();
  };

  template <typename Sum>
  StatusOr<std::vector<Folded>> FoldInto(std::span<const int32_t> updates, std::span<const double> scales,
                                         int value_bits, int sign, std::span<Sum> sums,
                                         std::span<FoldState> states) const {
    std::vector<Share> shares(parts_.size());
    for (size_t i = 0; i < updates.size(); ++i) {
      const Place& place = places_[static_cast<size_t>(updates[i])];
      Share& share = shares[place.device];
      share.which.push_back(i);
      share.numbers.push_back(place.number);
      share.scales.push_back(scales[i]);
      share.states.push_back(states[i]);
    }
    RIVULET_RETURN_IF_ERROR(FoldShares(shares, value_bits, sign, sums));
    std::vector<Folded> folded(updates.size());
    for (const Share& share : shares) {
      for (size_t k = 0; k < share.which.size(); ++k) {
        folded[share.which[k]] = (*share.folded)[k];
        states[share.which[k]] = share.states[k];
      }
    }
    return folded;
  }

  const DevicePart& AnyPart() const {
    return **std::ranges::find_if(parts_, [](const GpuDevicePart* part) { return part != nullptr; });
  }

  // All devices add, or none: if one has no such part, each copies its own to the host.
  template <typename Sum>
  Status FoldShares(std::vector<Share>& shares, int value_bits, int sign, std::span<Sum> sums) const {
    const auto has = [](const Share& share) { return !share.which.empty(); };
    if (std::ranges::count_if(shares, has) <= 1 || std::ranges::count(parts_, nullptr) > 0) {
      for (size_t device = 0; device < shares.size(); ++device) {
        Share& share = shares[device];
        if (!has(share)) continue;
        share.folded = parts_[device]->Fold(share.numbers, share.scales, value_bits, sign, sums, share.states);
        RIVULET_RETURN_IF_ERROR(share.folded.status());
      }
      return absl::OkStatus();
    }
    Each(shares.size(), [&](size_t device) {
      Share& share = shares[device];
      share.folded =
          parts_[device]->FoldThere(share.numbers, share.scales, value_bits, sign, sizeof(Sum) == 4, share.states);
    });
    std::vector<GpuStream*> streams;
    std::vector<std::byte*> there;
    for (size_t device = 0; device < shares.size(); ++device) {
      RIVULET_RETURN_IF_ERROR(shares[device].folded.status());
      streams.push_back(&parts_[device]->stream());
      there.push_back(parts_[device]->sums_there());
    }
    // Enqueued work reads this memory, so all streams are awaited even if one fails.
    Status status = sum_.Add(streams, there, sums.size(), sizeof(Sum));
    for (GpuStream* const stream : streams) status.Update(stream->Wait());
    RIVULET_RETURN_IF_ERROR(status);
    return parts_[0]->AddSums(sums);
  }

  const std::vector<const GpuDevicePart*> parts_;  // by device; null: it has trained none with such a part
  const std::vector<Place>& places_;
  GpuSum& sum_;
};

class GpuTeam final : public Trainer {
 public:
  static StatusOr<std::unique_ptr<Trainer>> Create(const std::shared_ptr<PassPrograms>& programs,
                                                   const TrainingDevice& on) {
    auto team = std::make_unique<GpuTeam>();
    std::vector<std::shared_ptr<GpuDevice>> devices;
    for (int number = 0; number < on.count(); ++number) {
      const TrainingDevice one = on.Of(number);
      devices.push_back(one.device);
      RIVULET_ASSIGN_OR_RETURN(team->members_.emplace_back(), NewGpuTrainer(programs, one));
    }
    RIVULET_ASSIGN_OR_RETURN(team->sum_, GpuSum::Create(devices));
    return std::unique_ptr<Trainer>(std::move(team));
  }

  // The same number on each.
  int MostLanes(TaskKind kind, int64_t examples) override {
    int most = members_[0]->MostLanes(kind, examples);
    for (const auto& member : members_) most = std::min(most, member->MostLanes(kind, examples));
    return most * static_cast<int>(members_.size());
  }
  Status CheckRoom(TaskKind kind, int64_t examples) override {
    for (const auto& member : members_) RIVULET_RETURN_IF_ERROR(member->CheckRoom(kind, examples));
    return absl::OkStatus();
  }
  bool TakesUnlikeTasks() const override { return true; }
  bool LeaveParts(bool leave) override {
    leaves_ = leave;
    for (const auto& member : members_) leaves_ = member->LeaveParts(leave) && leaves_;
    return leaves_;
  }
  void Observe(RunObserver* observer) override {
    for (const auto& member : members_) member->Observe(observer);
  }

  StatusOr<std::vector<LocalResult>> Train(std::span<const LaneTask> lanes, const CancellationToken& cancel) override {
    if (lanes.size() <= 1) return members_[0]->Train(lanes, cancel);
    const std::vector<std::vector<size_t>> dealt = Deal(lanes);
    std::vector<StatusOr<std::vector<LocalResult>>> trained(members_.size());
    Each(members_.size(), [&](size_t device) {
      std::vector<LaneTask> share;
      for (const size_t lane : dealt[device]) share.push_back(lanes[lane]);
      trained[device] = share.empty() ? std::vector<LocalResult>() : members_[device]->Train(share, cancel);
    });
    for (const auto& of_device : trained) RIVULET_RETURN_IF_ERROR(of_device.status());
    std::vector<LocalResult> results(lanes.size());
    places_.assign(lanes.size(), {});
    for (size_t device = 0; device < dealt.size(); ++device) {
      for (size_t k = 0; k < dealt[device].size(); ++k) {
        const size_t lane = dealt[device][k];
        results[lane] = std::move((*trained[device])[k]);
        places_[lane].device = device;
      }
    }
    if (leaves_ && lanes[0].task->kind == TaskKind::kTrain) JoinParts(results);
    return results;
  }

 private:
  // Largest first, alternating: equal numbers for each, up to one, and about as many examples.
  std::vector<std::vector<size_t>> Deal(std::span<const LaneTask> lanes) const {
    std::vector<size_t> order(lanes.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order,
                             [&](size_t a, size_t b) { return lanes[a].examples->size() > lanes[b].examples->size(); });
    const size_t devices = members_.size();
    std::vector<std::vector<size_t>> dealt(devices);
    for (size_t i = 0; i < order.size(); ++i) {
      const size_t at = i % devices;
      dealt[i / devices % 2 == 0 ? at : devices - 1 - at].push_back(order[i]);
    }
    return dealt;
  }

  // Parts on single devices become parts of the team: every trained update has the same ones.
  void JoinParts(std::vector<LocalResult>& results) {
    joined_.clear();
    std::vector<std::vector<const GpuDevicePart*>> parts;
    for (size_t lane = 0; lane < results.size(); ++lane) {
      std::vector<PartView>& views = results[lane].parts;
      parts.resize(std::max(parts.size(), views.size()));
      for (size_t part = 0; part < views.size(); ++part) {
        parts[part].resize(members_.size());
        // A member that leaves its parts gives this type.
        parts[part][places_[lane].device] = static_cast<const GpuDevicePart*>(views[part].device_part);
        places_[lane].number = views[part].number;
      }
    }
    for (auto& of_devices : parts) {
      joined_.push_back(std::make_unique<TeamPart>(std::move(of_devices), places_, *sum_));
    }
    for (size_t lane = 0; lane < results.size(); ++lane) {
      for (size_t part = 0; part < results[lane].parts.size(); ++part) {
        results[lane].parts[part].device_part = joined_[part].get();
        results[lane].parts[part].number = static_cast<int32_t>(lane);
      }
    }
  }

  std::vector<std::unique_ptr<Trainer>> members_;  // by device
  std::unique_ptr<GpuSum> sum_;
  std::vector<Place> places_;                            // of the last training, by lane
  std::vector<std::unique_ptr<const TeamPart>> joined_;  // by part
  bool leaves_ = false;
};

}  // namespace

StatusOr<std::unique_ptr<Trainer>> NewGpuTeam(std::shared_ptr<PassPrograms> programs, const TrainingDevice& on) {
  RIVULET_CHECK(on.count() > 1);
  return GpuTeam::Create(programs, on);
}

TrainerFactory TrainersOnAll(TrainingDevice on) {
  return on.team && !on.check ? TrainersBy(NewGpuTeam, std::move(on)) : TrainersOn(std::move(on));
}

StatusOr<bool> TrainsAsTeam(const std::shared_ptr<const Plan>& plan, const TrainingDevice& on) {
  if (on.count() < 2 || plan->aggregation().rule != kRule || !GpuSumMissing(on.device->api()).empty()) return false;
  RIVULET_ASSIGN_OR_RETURN(const auto trainer, NewGpuTrainer(std::make_shared<PassPrograms>(plan), on.Of(0)));
  return trainer->LeaveParts(true);
}

}  // namespace rivulet
