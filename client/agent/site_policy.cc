#include "client/agent/site_policy.h"

#include <sched.h>

#include <algorithm>
#include <map>
#include <utility>

#include "certificates/author.h"
#include "client/agent/plan_facts.h"
#include "client/training/failure.h"
#include "engine/base/file_system.h"
#include "engine/base/nearest.h"
#include "engine/base/setting.h"
#include "federated/scenario/keys.h"
#include "federated/secure/protocol.h"

namespace rivulet {
namespace {

Setting Names(std::string name, std::string doc) {
  return {.name = std::move(name), .type = SettingType::kStrings, .default_value = {}, .doc = std::move(doc)};
}

using Table = std::map<std::string, std::vector<Setting>, std::less<>>;

// Keys by section.
const Table& SiteKeys() {
  static const Table* const table = new Table{
      {"plans",
       {Names("authors", "Accepted authors of plans"), Names("ops", "Accepted ops"),
        Names("columns", "Accepted columns of examples"),
        Integer("max_epochs", std::nullopt, "How often a task may go over the data").AtLeast(1)}},
      {"secure",
       {Flag("required", std::nullopt, "Whether updates must be summed under masks"),
        Integer("min_cohort", std::nullopt, "Clients that announce keys").Between(1, kMostSecureUpdates),
        Integer("min_survivors", std::nullopt, "Clients in a sum").Between(1, kMostSecureUpdates),
        Integer("max_colluding", std::nullopt, "Clients that may collude").Between(1, kMostSecureUpdates),
        Integer("least_sum", std::nullopt, "Clients in the smallest sum").Between(1, kMostSecureUpdates)}},
      {"budget",
       {Integer("memory_megabytes", std::nullopt, "Memory that a task may take").Between(1, 1e9),
        Integer("processors", std::nullopt, "Processors that the process may run on").Between(1, CPU_SETSIZE),
        Integer("niceness", std::nullopt, "How far everything else goes first").Between(1, 19)}},
      {"when",
       {Names("hours", "When tasks may begin"), Float("max_load", std::nullopt, "How busy the machine may be").Above(0),
        Integer("min_free_megabytes", std::nullopt, "Memory that must be free").Between(1, 1e9)}},
      {"privacy",
       {Float("max_epsilon", std::nullopt, "Budget of this site over all runs").Above(0),
        Float("delta", std::nullopt, "Delta of that epsilon").Between(1e-30, 0.5),
        Integer("min_cohort", std::nullopt, "Updates that a version must plan").AtLeast(1),
        Text("ledger", std::nullopt, "Folder of the ledgers, one for each authority")}},
  };
  return *table;
}

// The file's values, by "section.key".
class Given {
 public:
  static StatusOr<Given> Read(const std::string& toml, const std::string& path) {
    RIVULET_ASSIGN_OR_RETURN(const std::vector<scenario::Entry> entries, scenario::ReadToml(toml, path));
    Given given;
    for (const scenario::Entry& entry : entries) {
      const size_t dot = entry.key.find('.');
      const auto section = SiteKeys().find(entry.key.substr(0, dot));
      if (section == SiteKeys().end() || (dot == std::string::npos && !entry.is_table)) {
        std::vector<std::string> known;
        for (const auto& [name, keys] : SiteKeys()) known.push_back("[" + name + "]");
        return InvalidArgument("{}: there is no section for '{}'.{}", entry.where, entry.key,
                               DidYouMean("[" + entry.key.substr(0, dot) + "]", known));
      }
      if (dot == std::string::npos) continue;
      if (entry.key == "privacy.secure") {
        return InvalidArgument(
            "{}: the key 'privacy.secure' is 'secure.required' now; write required = true below "
            "[secure]",
            entry.where);
      }
      const Setting* const setting = FindSetting(section->second, entry.key.substr(dot + 1));
      if (setting == nullptr) {
        std::vector<std::string> known;
        for (const Setting& key : section->second) known.push_back(section->first + "." + key.name);
        return InvalidArgument("{}: there is no key '{}'.{}", entry.where, entry.key, DidYouMean(entry.key, known));
      }
      const std::string subject = fmt::format("{} in {}", entry.key, entry.where);
      const SettingValue* const value = std::get_if<SettingValue>(&entry.value);
      if (value == nullptr) return setting->WrongType(subject, scenario::Describe(entry.value));
      RIVULET_ASSIGN_OR_RETURN(given.values_[entry.key], setting->Take(*value, subject));
      given.where_[entry.key] = entry.where;
    }
    return given;
  }

  std::optional<std::vector<std::string>> names(const std::string& key) const {
    const auto found = values_.find(key);
    if (found == values_.end()) return std::nullopt;
    return std::get<std::vector<std::string>>(found->second);
  }
  int64_t integer(const std::string& key, int64_t otherwise) const {
    const auto found = values_.find(key);
    return found == values_.end() ? otherwise : std::get<int64_t>(found->second);
  }
  double number(const std::string& key, double otherwise) const {
    const auto found = values_.find(key);
    return found == values_.end() ? otherwise : std::get<double>(found->second);
  }
  bool flag(const std::string& key, bool otherwise) const {
    const auto found = values_.find(key);
    return found == values_.end() ? otherwise : std::get<bool>(found->second);
  }
  std::string text(const std::string& key, const std::string& otherwise) const {
    const auto found = values_.find(key);
    return found == values_.end() ? otherwise : std::get<std::string>(found->second);
  }
  const std::string& where(const std::string& key) const { return where_.at(key); }

 private:
  std::map<std::string, SettingValue> values_;
  std::map<std::string, std::string> where_;
};

// "20:00-06:00".
std::optional<SitePolicy::Hours> ParseHours(std::string_view text) {
  const auto minute = [](std::string_view clock) -> int {
    const auto digit = [&](size_t at) { return clock[at] >= '0' && clock[at] <= '9' ? clock[at] - '0' : 100; };
    if (clock.size() != 5 || clock[2] != ':') return -1;
    const int hour = digit(0) * 10 + digit(1), rest = digit(3) * 10 + digit(4);
    return hour < 24 && rest < 60 ? hour * 60 + rest : -1;
  };
  if (text.size() != 11 || text[5] != '-') return std::nullopt;
  const SitePolicy::Hours hours = {minute(text.substr(0, 5)), minute(text.substr(6))};
  if (hours.from < 0 || hours.until < 0 || hours.from == hours.until) return std::nullopt;
  return hours;
}

Status NotWilling(Status status, std::string_view subject) {
  return WithReason(std::move(status), TaskFailure::Code::kNotWilling, subject);
}

bool Has(const std::vector<std::string>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

// Claims that a plan must make. The coordinator is responsible for their truth.
Status CheckPrivacy(const SitePolicy::Privacy& wanted, const Plan& plan) {
  if (wanted.max_epsilon > 0 && !plan.privacy()) {
    return NotWilling(FailedPrecondition("plan '{}' claims no noise, and this site has a privacy budget "
                                         "(privacy.max_epsilon)",
                                         plan.name()),
                      "no noise");
  }
  const int64_t cohort = plan.privacy() ? plan.privacy()->cohort : plan.aggregation().updates_per_version;
  if (cohort < wanted.min_cohort) {
    return NotWilling(FailedPrecondition("plan '{}' has {} updates a version, and this site wants {} "
                                         "(privacy.min_cohort)",
                                         plan.name(), cohort, wanted.min_cohort),
                      fmt::format("cohort of {}", cohort));
  }
  return absl::OkStatus();
}

}  // namespace

StatusOr<SitePolicy> ParseSitePolicy(const std::string& toml, const std::string& path) {
  RIVULET_ASSIGN_OR_RETURN(const Given given, Given::Read(toml, path));
  SitePolicy policy;
  policy.plans = {.authors = given.names("plans.authors"),
                  .ops = given.names("plans.ops"),
                  .columns = given.names("plans.columns"),
                  .max_epochs = given.integer("plans.max_epochs", 0)};
  for (const std::string& author : policy.plans.authors.value_or(std::vector<std::string>())) {
    const Status known = ParseAuthor(author).status();
    if (!known.ok()) return Annotate(known, "plans.authors in " + given.where("plans.authors"));
  }
  policy.secure = {.required = given.flag("secure.required", false),
                   .min_cohort = given.integer("secure.min_cohort", 0),
                   .min_survivors = given.integer("secure.min_survivors", 0),
                   .max_colluding = given.integer("secure.max_colluding", 0),
                   .least_sum = given.integer("secure.least_sum", 0)};
  constexpr int64_t kMegabyte = 1'000'000;
  policy.budget = {.memory_bytes = given.integer("budget.memory_megabytes", 0) * kMegabyte,
                   .processors = given.integer("budget.processors", 0),
                   .niceness = given.integer("budget.niceness", 0)};
  policy.privacy = {.max_epsilon = given.number("privacy.max_epsilon", 0),
                    .delta = given.number("privacy.delta", SitePolicy::Privacy().delta),
                    .min_cohort = given.integer("privacy.min_cohort", 0),
                    .ledger = given.text("privacy.ledger", "")};
  // A policy's relative paths start at its folder.
  if (!policy.privacy.ledger.empty()) policy.privacy.ledger = JoinPath(FolderOf(path), policy.privacy.ledger);
  policy.when.max_load = given.number("when.max_load", 0);
  policy.when.min_available_bytes = given.integer("when.min_free_megabytes", 0) * kMegabyte;
  for (const std::string& text : given.names("when.hours").value_or(std::vector<std::string>())) {
    const std::optional<SitePolicy::Hours> hours = ParseHours(text);
    if (!hours) {
      return InvalidArgument("when.hours in {} takes hours of a day such as \"20:00-06:00\", not '{}'",
                             given.where("when.hours"), text);
    }
    policy.when.hours.push_back(*hours);
  }
  return policy;
}

namespace {

Status CheckSecure(const SitePolicy::Secure& asked, const Plan& plan) {
  if (!asked.asked()) return absl::OkStatus();
  const SecureSum& sum = plan.aggregation().secure;
  const StatusOr<const secure::SecureProtocol*> protocol = secure::FindSecureProtocol(sum.protocol);
  if (!protocol.ok() || !(*protocol)->hides) {
    return NotWilling(
        FailedPrecondition("plan '{}' has no secure aggregation, and this site asks for it ([secure])", plan.name()),
        "no secure aggregation");
  }
  const struct {
    const char* key;
    int64_t least, stated;
  } bounds[] = {{"min_cohort", asked.min_cohort, sum.min_cohort},
                {"min_survivors", asked.min_survivors, sum.min_survivors},
                {"max_colluding", asked.max_colluding, sum.max_colluding},
                {"least_sum", asked.least_sum, sum.least_sum}};
  for (const auto& [key, least, stated] : bounds) {
    if (stated >= least) continue;
    return NotWilling(FailedPrecondition("plan '{}' has privacy.{} = {}, and this site asks for {} (secure.{})",
                                         plan.name(), key, stated, least, key),
                      fmt::format("privacy.{}", key));
  }
  return absl::OkStatus();
}

}  // namespace

Status CheckPlan(const SitePolicy& policy, const Plan& plan) {
  RIVULET_RETURN_IF_ERROR(CheckSecure(policy.secure, plan));
  const SitePolicy::Plans& pinned = policy.plans;
  if (pinned.authors) {
    const PlanAuthor author = AuthorOf(plan);
    if (author.text.empty()) {
      return NotWilling(FailedPrecondition("plan '{}' is unsigned, and this site runs only plans of known authors "
                                           "(plans.authors); have one of them sign it",
                                           plan.name()),
                        "unsigned plan");
    }
    if (!author.good) {
      return NotWilling(FailedPrecondition("plan '{}' names the author {}, and its signature is not that author's: the "
                                           "plan was changed, or another author's name was put on it",
                                           plan.name(), author.text),
                        "wrong signature");
    }
    if (!Has(*pinned.authors, author.text)) {
      return NotWilling(FailedPrecondition("plan '{}' was signed by {}, an author outside this site's plans.authors",
                                           plan.name(), author.text),
                        "author");
    }
  }
  if (pinned.columns) {
    for (const FeatureSpec& feature : plan.features()) {
      if (Has(*pinned.columns, feature.feature)) continue;
      return NotWilling(FailedPrecondition("plan '{}' reads '{}' of each example, which is not in this site's "
                                           "plans.columns",
                                           plan.name(), feature.feature),
                        fmt::format("column {}", feature.feature));
    }
  }
  if (pinned.ops) {
    for (const std::string& op : OpsOf(plan)) {
      if (Has(*pinned.ops, op)) continue;
      return NotWilling(
          FailedPrecondition("plan '{}' computes with {}, which is not in this site's plans.ops", plan.name(), op),
          fmt::format("op {}", op));
    }
  }
  if (const int64_t epochs = EpochsOf(plan); pinned.max_epochs > 0 && epochs > pinned.max_epochs) {
    return NotWilling(
        FailedPrecondition(
            "plan '{}' makes {} passes over the data in a task, and this site allows {} (plans.max_epochs)",
            plan.name(), epochs, pinned.max_epochs),
        fmt::format("{} epochs", epochs));
  }
  return CheckPrivacy(policy.privacy, plan);
}

}  // namespace rivulet
