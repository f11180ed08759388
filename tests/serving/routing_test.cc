#include "serving/routing.h"

#include <cmath>

#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::HasSubstr;

RoutedLabel Label(int64_t version, double share = 0) {
  auto loaded = std::make_shared<LoadedVersion>();
  loaded->pointed.version = version;
  return {loaded, share, std::make_shared<ModelCounts>()};
}

Routing Mnist(double share) {
  Routing routing;
  routing.name = "mnist";
  routing.labels = {{"stable", Label(3)}, {"canary", Label(7, share)}};
  return routing;
}

int64_t VersionOf(const Routing& routing, std::string_view version, std::string_view key) {
  const auto route = routing.Choose(version, key);
  return route.ok() ? route->version->pointed.version : -1;
}

TEST(Routing, NamedVersionOrLabel_GetsIt) {
  const Routing routing = Mnist(100);
  for (int user = 0; user < 50; ++user) {
    const std::string key = fmt::format("user-{}", user);
    EXPECT_EQ(VersionOf(routing, "3", key), 3);
    EXPECT_EQ(VersionOf(routing, "stable", key), 3);
    EXPECT_EQ(VersionOf(routing, "canary", key), 7);
  }
}

TEST(Routing, UnknownVersion_NamesThoseThatAreServed) {
  EXPECT_THAT(Mnist(0).Choose("4", "").status(), StatusIs(absl::StatusCode::kNotFound, HasSubstr("3 (stable)")));
  EXPECT_THAT(Mnist(0).Choose("prod", "").status(), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(Mnist(0).Choose("3x", "").status(), StatusIs(absl::StatusCode::kNotFound));
}

TEST(Routing, NoStable_RefusesRequestsWithoutAVersion) {
  Routing routing = Mnist(100);
  routing.labels.erase("stable");
  EXPECT_THAT(routing.Choose("", "u").status(), StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_EQ(VersionOf(routing, "7", "u"), 7);
}

TEST(Routing, Share_WithinThreeSigmaOfUsers) {
  constexpr int kUsers = 100'000;
  for (const double share : {0.0, 5.0, 20.0, 100.0}) {
    const Routing routing = Mnist(share);
    int canaries = 0;
    for (int user = 0; user < kUsers; ++user)
      canaries += VersionOf(routing, "", fmt::format("user-{}", user)) == 7 ? 1 : 0;
    const double p = share / 100, sigma = std::sqrt(kUsers * p * (1 - p));
    EXPECT_NEAR(canaries, kUsers * p, 3 * sigma) << share;
  }
}

TEST(Routing, GrowingShare_MovesNobodyBack) {
  const Routing small = Mnist(5), large = Mnist(20);
  for (int user = 0; user < 20'000; ++user) {
    const std::string key = fmt::format("user-{}", user);
    if (VersionOf(small, "", key) == 7) {
      EXPECT_EQ(VersionOf(large, "", key), 7) << key;
    }
    EXPECT_EQ(VersionOf(small, "", key), VersionOf(small, "", key));
  }
}

TEST(Routing, OnlyWhatTheShareDivides_IsCompared) {
  Routing routing = Mnist(50);
  EXPECT_EQ(routing.Choose("", "u")->compared, nullptr);
  routing.watch = std::make_shared<CanaryWatch>();
  for (int user = 0; user < 50; ++user) {
    const auto route = routing.Choose("", fmt::format("user-{}", user));
    EXPECT_OK(route);
    EXPECT_EQ(route->compared.get(), route->label == "canary" ? &routing.watch->canary : &routing.watch->stable);
  }
  EXPECT_EQ(routing.Choose("canary", "u")->compared, nullptr);
  EXPECT_EQ(routing.Choose("7", "u")->compared, nullptr);
}

TEST(Routing, AnotherName_HasOtherUsers) {
  int both = 0, first = 0;
  for (int user = 0; user < 10'000; ++user) {
    const std::string key = fmt::format("user-{}", user);
    if (!FallsInto("mnist", key, 10)) continue;
    ++first;
    both += FallsInto("other", key, 10) ? 1 : 0;
  }
  EXPECT_GT(first, 0);
  EXPECT_LT(both, first / 4);
}

}  // namespace
}  // namespace rivulet
