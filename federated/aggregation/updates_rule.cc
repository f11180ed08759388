#include "federated/aggregation/updates_rule.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <utility>

#include "federated/aggregation/gathering.h"
#include "federated/aggregation/update_spool.h"
#include "federated/aggregation/whole_updates_rule.h"
#include "federated/settings/made_piece.h"
#include "federated/settings/registered_piece.h"

namespace rivulet {
namespace {

// Created at first use and never destroyed, like the registry of rules.
struct RegisteredRule {
  std::vector<Setting> settings;
  UpdatesRuleFactory factory;
};
std::map<std::string, RegisteredRule, std::less<>>& UpdatesRules() {
  static auto* const rules = new std::map<std::string, RegisteredRule, std::less<>>;
  return *rules;
}

constexpr size_t kWrittenAtOnce = 16384;       // values per write
constexpr size_t kLookedAt = size_t{2} << 20;  // values read at once, over all updates: 8 MB
constexpr size_t kLeastOfAnUpdate = 256;       // values per update: below, disk accesses cost more than their bytes

class OverUpdates : public Gathering {
 public:
  OverUpdates(const AggregationSpec& spec, PartCodecs codecs, std::unique_ptr<const UpdatesRule> rule)
      : Gathering(spec, std::move(codecs)), rule_(std::move(rule)) {}

  void StartFrom(std::shared_ptr<const AggregationBase> base) override { base_ = std::move(base); }

 protected:
  // Writes the decoded values of any codec, so that a block of an update's coordinates is one contiguous read.
  Status AddPart(const UpdateView& update, const PartView& part, size_t p, int64_t weight, PartSums& into,
                 FoldState& state) override {
    if (spool_ == nullptr) {
      RIVULET_ASSIGN_OR_RETURN(spool_, UpdateSpool::Create());
    }
    const int64_t offset = spool_->size();
    std::vector<float> written;
    written.reserve(kWrittenAtOnce);
    const auto write = [&] {
      const Status status = spool_->Append(std::as_bytes(std::span(written)));
      written.clear();
      return status;
    };
    Status status;
    EachRun(part, p, [&](const FloatRun& run, int64_t first) {
      if (const int64_t bad = FirstBad(run, spec().parts[p].value_bits); bad < run.count) {
        status = BadValue(update, p, first + bad, ValueOf(run, bad));
        return false;
      }
      for (int64_t i = 0; i < run.count && status.ok(); ++i) {
        const float value = ValueOf(run, i);
        state.squares[static_cast<size_t>(first + i) % 8] += static_cast<double>(value) * static_cast<double>(value);
        state.nonzeros += value != 0;
        written.push_back(value);
        if (written.size() == kWrittenAtOnce) status = write();
      }
      return status.ok();
    });
    if (status.ok()) status = write();
    if (!status.ok()) {
      spool_->Truncate(offset);
      return status;
    }
    into.spooled.push_back({update.task, weight, spool_, offset});
    return absl::OkStatus();
  }

  // One by one: RemovePart removes the last part, and adding together might have added others after it.
  std::vector<StatusOr<Taken>> TakeTogether(std::span<const UpdateView> updates,
                                            std::span<const Weights> weights) override {
    return Aggregation::TakeTogether(updates, weights);
  }

  void RemovePart(const PartView&, size_t, int64_t, PartSums& from) override {
    spool_->Truncate(from.spooled.back().offset);
    from.spooled.pop_back();
  }

  Status CheckSums(const PartSpec& part, const PartSums& sums) const override {
    int64_t weights = 0;
    for (const SpooledPart& spooled : sums.spooled) {
      if (spooled.weight < 1 || spooled.weight > spec().weight_bound(part)) {
        return InvalidArgument("a partial sum's update of task '{}' has the weight {}, which is not between 1 and {}",
                               spooled.task, spooled.weight, spec().weight_bound(part));
      }
      weights += spooled.weight;
      std::vector<float> values(kWrittenAtOnce);
      double squares = 0;
      for (int64_t at = 0; at < part.elements; at += std::ssize(values)) {
        values.resize(std::min(values.size(), static_cast<size_t>(part.elements - at)));
        RIVULET_RETURN_IF_ERROR(ReadValues(spooled, at, values));
        const FloatRun run{values.data(), nullptr, std::ssize(values)};
        if (const int64_t bad = FirstBad(run, part.value_bits); bad < run.count) {
          return InvalidArgument("a partial's update of task '{}' has {} at element {} of its {}, which no update may",
                                 spooled.task, values[static_cast<size_t>(bad)], at + bad, part.name);
        }
        for (const float value : values) squares += static_cast<double>(value) * static_cast<double>(value);
      }
      if (const double most = spec().most_norm; most > 0 && std::sqrt(squares) > most * (1 + kNormRounding)) {
        return InvalidArgument(
            "a partial sum's update of task '{}' has the norm {}, more than the {} of privacy.clip; its client does "
            "not clip",
            spooled.task, std::sqrt(squares), most);
      }
    }
    if (!sums.sums.empty() || !sums.sums32.empty() || std::ssize(sums.spooled) != sums.updates ||
        weights != sums.weight_sum) {
      return InvalidArgument("a partial has {} updates of part '{}', which weigh {}, where it says {} and {}",
                             sums.spooled.size(), part.name, weights, sums.updates, sums.weight_sum);
    }
    return absl::OkStatus();
  }

  void MergeSums(PartSums& into, PartSums&& more) override {
    into.spooled.insert(into.spooled.end(), std::make_move_iterator(more.spooled.begin()),
                        std::make_move_iterator(more.spooled.end()));
  }

  Status FinishPart(size_t p, std::span<const Share> shares, const ServerInput&,
                    ServerInput::Part& made) const override {
    // Ordered by task, independent of arrival: a rule's result may depend on the order.
    std::map<TaskId, std::pair<const SpooledPart*, int64_t>> updates;
    for (const auto& [sums, factor, base] : shares) {
      for (const SpooledPart& spooled : sums->spooled) updates[spooled.task] = {&spooled, spooled.weight * factor};
    }
    const auto elements = static_cast<size_t>(spec().parts[p].elements);
    const size_t block = std::min(elements, std::max(kLeastOfAnUpdate, kLookedAt / updates.size()));
    std::vector<float> values(block * updates.size());
    std::vector<int64_t> weights;
    for (const auto& [task, update] : updates) weights.push_back(update.second);
    made.denominator = static_cast<double>(updates.size());
    made.mean.resize(elements);
    if (rule_->reads_stored())
      return ReduceStored(p, shares.front().base_version, updates, made.mean, made.dropped_share);
    std::vector<std::span<const float>> rows(updates.size());
    const auto each_block = [&](const auto& body) -> Status {
      for (size_t first = 0; first < elements; first += block) {
        const size_t count = std::min(block, elements - first);
        size_t u = 0;
        for (const auto& [task, update] : updates) {
          const std::span<float> row = std::span(values).subspan(u * block, count);
          RIVULET_RETURN_IF_ERROR(ReadValues(*update.first, static_cast<int64_t>(first), row));
          rows[u++] = row;
        }
        body(first, count);
      }
      return absl::OkStatus();
    };
    UpdatesRule::Columns columns = {rows, weights};
    columns.unit = std::ldexp(1.0, spec().weight_fraction_bits + spec().fraction_bits(spec().parts[p]));
    if (rule_->looks_at_whole_updates()) {
      SquaredDistances distances(updates.size());
      RIVULET_RETURN_IF_ERROR(each_block([&](size_t, size_t) { distances.Add(rows); }));
      columns.counts = rule_->Count(distances);
    }
    return each_block(
        [&](size_t first, size_t count) { rule_->Reduce(columns, std::span(made.mean).subspan(first, count)); });
  }

 private:
  Status ReduceStored(size_t p, int64_t base_version,
                      const std::map<TaskId, std::pair<const SpooledPart*, int64_t>>& updates, std::span<float> mean,
                      double& dropped_share) const {
    std::vector<UpdatesRule::Stored::Update> stored;
    for (const auto& [task, update] : updates)
      stored.push_back({task, update.second, update.first->spool.get(), update.first->offset});
    return rule_->ReduceStored({.part = spec().parts[p].name,
                                .base_version = base_version,
                                .weight_unit = std::ldexp(1.0, -spec().weight_fraction_bits - spec().staleness_bits),
                                .updates = stored,
                                .base = base_.get(),
                                .dropped_share = &dropped_share},
                               mean);
  }

  static Status ReadValues(const SpooledPart& spooled, int64_t first, std::span<float> values) {
    return spooled.spool->Read(spooled.offset + first * static_cast<int64_t>(sizeof(float)),
                               std::as_writable_bytes(values));
  }

  const std::unique_ptr<const UpdatesRule> rule_;
  std::shared_ptr<const AggregationBase> base_;
  std::shared_ptr<UpdateSpool> spool_;  // updates added here; null: none yet
};

StatusOr<std::unique_ptr<Aggregation>> CreateOverUpdates(const AggregationSpec& spec) {
  RIVULET_ASSIGN_OR_RETURN(PartCodecs codecs, CodecsOf(spec));
  const RegisteredRule& rule = UpdatesRules().at(spec.rule);
  const SettingValues given(spec.rule_settings.begin(), spec.rule_settings.end());
  RIVULET_ASSIGN_OR_RETURN(const Settings settings,
                           Settings::Read(rule.settings, given, fmt::format("aggregation rule '{}'", spec.rule)));
  RIVULET_ASSIGN_OR_RETURN(std::unique_ptr<const UpdatesRule> made,
                           MadePiece<UpdatesRule>("aggregation rule", spec.rule, rule.factory(settings)));
  return std::make_unique<OverUpdates>(spec, std::move(codecs), std::move(made));
}

}  // namespace

bool IsUpdatesRule(std::string_view rule) { return UpdatesRules().contains(rule); }

UpdatesRuleRegistration::UpdatesRuleRegistration(const char* rule, std::vector<Setting> settings,
                                                 UpdatesRuleFactory factory) {
  RegisterPiece("rule over updates", rule, [name = std::string(rule), settings = std::move(settings), factory] {
    UpdatesRules().emplace(name, RegisteredRule{settings, factory});
  });
  AggregationRegistration(rule, CreateOverUpdates);
}

}  // namespace rivulet
