// The reference values of the test data (privacy/vectors.json), made by dp-accounting, prv-accountant, SciPy and
// mpmath: each within its own tolerance.
#include <cmath>

#include "engine/base/json.h"
#include "federated/privacy/accountant.h"
#include "federated/privacy/banded_noise.h"
#include "federated/privacy/concentrated.h"
#include "federated/privacy/discrete.h"
#include "federated/privacy/gaussian.h"
#include "federated/privacy/renyi.h"
#include "federated/privacy/sampled_gaussian.h"
#include "tests/testing/privacy_vectors.h"

namespace rivulet::privacy {
namespace {

using Value = StatusOr<double>;

double Field(const Json& vector, std::string_view name, double otherwise = 0) {
  const Json* field = vector.Find(name);
  return field != nullptr ? field->number() : otherwise;
}

StatusOr<double> ValueOf(StatusOr<Spend> spend) {
  RIVULET_RETURN_IF_ERROR(spend.status());
  return spend->value;
}

NoisedRounds RoundsOf(const Json& vector, std::string_view multiplier) {
  NoisedRounds rounds{.multiplier = Field(vector, multiplier),
                      .rate = Field(vector, "q", 1),
                      .count = static_cast<int64_t>(Field(vector, "steps", 1))};
  if (rounds.rate < 1) rounds.sampling = SamplingKind::kPoisson;
  return rounds;
}

// What is asked for of the rounds: epsilon where delta is given, delta where epsilon is.
Value Asked(const Json& vector, const Composition& composition, Accountant accountant) {
  if (vector.At("quantity").text().starts_with("delta")) {
    return ValueOf(DeltaOf(composition, Field(vector, "epsilon"), accountant));
  }
  return ValueOf(EpsilonOf(composition, Field(vector, "delta"), accountant));
}

Value Rdp(const Json& vector) { return Asked(vector, {.rounds = {RoundsOf(vector, "sigma")}}, Accountant::kRdp); }
Value Pld(const Json& vector) { return Asked(vector, {.rounds = {RoundsOf(vector, "sigma")}}, Accountant::kPld); }

Value RdpCurve(const Json& vector) {
  return SampledGaussianRenyi(Field(vector, "sigma"), Field(vector, "q"), Field(vector, "order"));
}

// The library states the noise over the change by a replaced member, which is twice the sensitivity.
Value RdpFixedSize(const Json& vector) {
  NoisedRounds rounds = RoundsOf(vector, "sigma");
  rounds.multiplier *= 2;
  rounds.sampling = SamplingKind::kFixed;
  rounds.rate = Field(vector, "n") / Field(vector, "N");
  return Asked(vector, {.relation = Relation::kReplaceOne, .rounds = {rounds}}, Accountant::kRdp);
}

Value PldLaplace(const Json& vector) {
  NoisedRounds rounds = RoundsOf(vector, "scale");
  rounds.noise = NoiseLaw::kLaplace;
  return Asked(vector, {.rounds = {rounds}}, Accountant::kPld);
}

Value PldDiscreteGaussian(const Json& vector) {
  NoisedRounds rounds = RoundsOf(vector, "sigma");
  rounds.noise = NoiseLaw::kDiscreteGaussian;
  return Asked(vector, {.rounds = {rounds}}, Accountant::kPld);
}

Value GaussianExact(const Json& vector) {
  const double mu = Field(vector, "mu");
  return vector.At("quantity").text() == "delta" ? GaussianDelta(mu, Field(vector, "epsilon"))
                                                 : GaussianEpsilon(mu, Field(vector, "delta"));
}

Value CentralLimit(const Json& vector) {
  const NoisedRounds rounds = RoundsOf(vector, "sigma");
  if (vector.At("quantity").text().starts_with("mu")) {
    return CentralLimitMu(rounds.multiplier, rounds.rate, static_cast<double>(rounds.count));
  }
  return Asked(vector, {.rounds = {rounds}}, Accountant::kGdp);
}

Value Concentrated(const Json& vector) {
  const double rho = Field(vector, "rho"), delta = Field(vector, "delta");
  return vector.At("quantity").text().ends_with("best order") ? EpsilonOfRho(rho, delta)
                                                              : SimpleEpsilonOfRho(rho, delta);
}

Value DistributedDiscreteGaussian(const Json& vector) {
  const double n = Field(vector, "n"), d2 = Field(vector, "d2");
  const NoisedRounds rounds{.noise = NoiseLaw::kDiscreteGaussian,
                            .multiplier = Field(vector, "sigma") * std::sqrt(n) / d2,
                            .sensitivity = d2,
                            .dimension = static_cast<int64_t>(Field(vector, "dimension")),
                            .contributors = static_cast<int64_t>(n)};
  return std::sqrt(2 * ConcentratedOfDiscreteGaussian(rounds, Relation::kAddRemove));
}

Value DiscreteGaussianLaw(const Json& vector) {
  const double sigma = Field(vector, "sigma");
  return vector.At("quantity").text() == "variance" ? DiscreteGaussianVariance(sigma) : DiscreteGaussianMass(sigma, 0);
}

Value Tree(const Json& vector) {
  const NoisedRounds rounds{.multiplier = Field(vector, "noise_multiplier"),
                            .count = TreeNodesOfOne(static_cast<int64_t>(Field(vector, "steps")))};
  return Asked(vector, {.rounds = {rounds}}, Accountant::kRdp);
}

Value Banded(const Json& vector) {
  const auto versions = static_cast<int64_t>(Field(vector, "n"));
  const std::vector<double> bands = SquareRootBands(static_cast<int64_t>(Field(vector, "bands")));
  RIVULET_ASSIGN_OR_RETURN(const double sensitivity,
                           BandedSensitivity(bands, versions, static_cast<int64_t>(Field(vector, "min_separation")),
                                             static_cast<int64_t>(Field(vector, "participations"))));
  const std::string& quantity = vector.At("quantity").text();
  if (quantity == "sensitivity") return sensitivity;
  const PrefixErrors errors = PrefixErrorsOf(bands, versions);
  return sensitivity * (quantity.ends_with("largest error") ? errors.largest : errors.root_mean_square);
}

Value LeastSigma(const Json& vector) {
  NoisedRounds rounds = RoundsOf(vector, "sigma");
  rounds.multiplier = 1;
  return LeastNoise({.rounds = {rounds}}, Field(vector, "epsilon"), Field(vector, "delta"), Accountant::kRdp);
}

struct Group {
  Value (*compute)(const Json& vector);
  int vectors;
};
const std::map<std::string, Group, std::less<>> kGroups = {
    {"banded-toeplitz", {Banded, 18}},
    {"discrete-gaussian-law", {DiscreteGaussianLaw, 6}},
    {"distributed-discrete-gaussian", {DistributedDiscreteGaussian, 4}},
    {"dp-ftrl-tree", {Tree, 4}},
    {"gaussian-exact", {GaussianExact, 13}},
    {"gdp-clt", {CentralLimit, 6}},
    {"inverse", {LeastSigma, 4}},
    {"pld-delta", {Pld, 3}},
    {"pld-discrete-gaussian", {PldDiscreteGaussian, 4}},
    {"pld-epsilon", {Pld, 11}},
    {"pld-laplace", {PldLaplace, 4}},
    {"prv-epsilon", {Pld, 4}},
    {"rdp-curve", {RdpCurve, 58}},
    {"rdp-delta", {Rdp, 12}},
    {"rdp-epsilon", {Rdp, 12}},
    {"rdp-fixed-size", {RdpFixedSize, 5}},
    {"zcdp", {Concentrated, 8}},
};
// Of secure aggregation, and of noise that there is none of here.
const std::set<std::string, std::less<>> kOthers = {"secagg-graph", "shamir", "skellam-bound", "skellam-exact"};

using Vectors = testing::PrivacyVectors;

TEST_F(Vectors, ArePassedWithinTheirTolerances) {
  std::map<std::string, int> met;
  for (const Json& vector : All()) {
    const std::string& group = vector.At("group").text();
    if (kOthers.contains(group)) continue;
    const auto found = kGroups.find(group);
    ASSERT_NE(found, kGroups.end()) << group;
    ++met[group];
    const std::string& id = vector.At("id").text();
    SCOPED_TRACE(id);
    ASSERT_OK_AND_ASSIGN(const double value, found->second.compute(vector));
    const double wanted = vector.At("value").number();
    EXPECT_LE(std::abs(value - wanted), Field(vector, "rtol") * std::abs(wanted))
        << id << ": " << value << ", not " << wanted;
  }
  for (const auto& [name, group] : kGroups) EXPECT_EQ(met[name], group.vectors) << name;
}

// prv-accountant states bounds beside its estimate; ours lie within, the lower one not above.
TEST_F(Vectors, BoundsOfPrvHoldOurs) {
  for (const Json& vector : All()) {
    if (vector.At("group").text() != "prv-epsilon") continue;
    const Composition composition{.rounds = {RoundsOf(vector, "sigma")}};
    ASSERT_OK_AND_ASSIGN(const Spend spend, EpsilonOf(composition, Field(vector, "delta")));
    EXPECT_GE(*spend.lower, Field(vector, "lower"));
    EXPECT_LE(spend.value, Field(vector, "upper"));
    EXPECT_LE(*spend.lower, spend.value);
  }
}

}  // namespace
}  // namespace rivulet::privacy
