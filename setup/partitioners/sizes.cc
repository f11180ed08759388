#include "setup/partitioners/sizes.h"

#include <algorithm>
#include <functional>

#include "engine/base/join.h"
#include "engine/base/math.h"
#include "engine/base/nearest.h"
#include "setup/partitioners/proportions.h"

namespace rivulet {
namespace {

constexpr char kLaw[] = "law of sizes";

// The logarithm of client i's weight; null: even.
using LogWeight = std::function<double(int64_t, Draws&)>;

struct SizeLaw {
  std::string name, doc;
  std::vector<Setting> settings;
  LogWeight (*log_weight)(const Settings& settings);
};

double LogRank(int64_t client) { return math::Log(static_cast<double>(client + 1)); }

Setting Skew() {
  return WithExample(
      Float("skew", 1, "How much sizes differ: the rate, the exponent or the deviation of their law.").Above(0), "2.0");
}

const std::vector<SizeLaw>& SizeLaws() {
  static const auto* const laws = new std::vector<SizeLaw>{
      {"even", "1", {}, [](const Settings&) { return LogWeight(); }},
      {"linear", "i + 1", {}, [](const Settings&) { return LogWeight([](int64_t i, Draws&) { return LogRank(i); }); }},
      {"square",
       "(i + 1)²",
       {},
       [](const Settings&) { return LogWeight([](int64_t i, Draws&) { return 2 * LogRank(i); }); }},
      {"exponential",
       "exp(skew · i)",
       {Skew()},
       [](const Settings& s) {
         return LogWeight([skew = s.number("skew")](int64_t i, Draws&) { return skew * static_cast<double>(i); });
       }},
      {"power_law",
       "(i + 1)^−skew",
       {Skew()},
       [](const Settings& s) {
         return LogWeight([skew = s.number("skew")](int64_t i, Draws&) { return -skew * LogRank(i); });
       }},
      {"lognormal",
       "exp(skew · a normal draw)",
       {Skew()},
       [](const Settings& s) {
         return LogWeight([skew = s.number("skew")](int64_t, Draws& draws) { return skew * draws.Normal(); });
       }},
      {"dirichlet",
       "a draw from Dirichlet(size_alpha)",
       {WithExample(Float("size_alpha", 0.5,
                          "Concentration of the sizes' Dirichlet distribution: small makes sizes unlike, large alike.")
                        .Above(0),
                    "0.1")},
       [](const Settings& s) {
         return LogWeight([alpha = s.number("size_alpha")](int64_t, Draws& draws) { return LogGamma(alpha, draws); });
       }}};
  return *laws;
}

[[maybe_unused]] const bool size_laws_are_registered = [] {
  for (const SizeLaw& law : SizeLaws())
    SettingTableRegistration({.kind = kLaw, .name = law.name, .settings = law.settings, .doc = law.doc});
  return true;
}();

StatusOr<LogWeight> LogWeightOf(const PartitionRequest& request) {
  const std::string& name = request.settings.text("sizes");
  const auto law = std::ranges::find(SizeLaws(), name, &SizeLaw::name);
  if (law == SizeLaws().end()) {
    std::vector<std::string> names;
    for (const SizeLaw& each : SizeLaws()) names.push_back(each.name);
    return InvalidArgument("data.partition.sizes is '{}'; it must be one of {}.{}", name, Join(names, ", "),
                           DidYouMean(name, names));
  }
  const SettingTable table = {.kind = kLaw, .name = law->name, .settings = law->settings};
  RIVULET_ASSIGN_OR_RETURN(const Settings settings, ReadOwn(table, request.given, "data.partition"));
  return law->log_weight(settings);
}

}  // namespace

Setting SizesSetting() {
  std::string laws;
  for (const SizeLaw& law : SizeLaws()) laws += fmt::format("{}`{}`: {}", laws.empty() ? "" : "; ", law.name, law.doc);
  return WithExample(Text("sizes", "even",
                          fmt::format("Number of examples of client i = 0, 1, …: one, and the others in proportion to "
                                      "a weight. Weights: {}.",
                                      laws)),
                     "\"linear\"");
}

std::map<std::string, std::string, std::less<>> ChoosesSizes() { return {{"sizes", kLaw}}; }

StatusOr<std::vector<uint64_t>> SizeEnds(const PartitionRequest& request) {
  const int64_t examples = request.data.size(), clients = request.clients;
  std::vector<uint64_t> ends(static_cast<size_t>(clients));
  RIVULET_ASSIGN_OR_RETURN(const auto log_weight, LogWeightOf(request));
  if (log_weight == nullptr) {
    for (int64_t i = 0; i < clients; ++i)
      ends[static_cast<size_t>(i)] = static_cast<uint64_t>(EvenCut(examples, i + 1, clients));
    return ends;
  }
  const Proportions proportions(clients, PartitionDraws(request.seed, PartitionOp::kSizes), log_weight);
  proportions.Cut(static_cast<uint64_t>(examples - clients), [&](int64_t client, uint64_t, uint64_t end) {
    ends[static_cast<size_t>(client)] = end + static_cast<uint64_t>(client) + 1;
  });
  return ends;
}

}  // namespace rivulet
