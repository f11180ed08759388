#include "rpc/credentials.h"

#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;

TEST(ParseAddress, HostAndPort_AreSplit) {
  const auto address = ParseAddress("127.0.0.1:7000");
  ASSERT_OK(address);
  EXPECT_EQ(address->host, "127.0.0.1");
  EXPECT_EQ(address->port, 7000);
  EXPECT_EQ(address->ToString(), "127.0.0.1:7000");
}

TEST(ParseAddress, Ipv6InBrackets_KeepsThemOnlyInText) {
  const auto address = ParseAddress("[::1]:0");
  ASSERT_OK(address);
  EXPECT_EQ(address->host, "::1");
  EXPECT_EQ(address->ToString(), "[::1]:0");
}

TEST(ParseAddress, Nonsense_IsRefusedAndQuoted) {
  for (const std::string text : {"", "host", ":80", "host:", "host:x", "host:65536", "host:-1", "ho st:80", "::1:80",
                                 "[::zz]:80", "unix:/tmp/x", "host:80 ", "dns:///host:80"}) {
    const auto address = ParseAddress(text);
    EXPECT_THAT(address, StatusIs(absl::StatusCode::kInvalidArgument, ::testing::HasSubstr("'" + text + "'"))) << text;
  }
}

TEST(NetworkAddress, Loopback_IsToldFromNamesThatOnlyLookLikeIt) {
  for (const char* text : {"127.0.0.1:1", "127.9.9.9:1", "localhost:1", "[::1]:1"}) {
    EXPECT_TRUE(ParseAddress(text)->IsLoopback()) << text;
  }
  for (const char* text : {"0.0.0.0:1", "127.example.org:1", "10.0.0.1:1", "[::]:1", "localhost.example.org:1"}) {
    EXPECT_FALSE(ParseAddress(text)->IsLoopback()) << text;
  }
}

TEST(InsecureCredentials, BeyondLoopback_MustBeSaidTwice) {
  const NetworkAddress everywhere{.host = "0.0.0.0", .port = 7000}, here{.host = "127.0.0.1", .port = 7000};
  const Status once = InsecureCredentials(false)->Check(everywhere);
  EXPECT_THAT(once, StatusIs(absl::StatusCode::kFailedPrecondition, ::testing::HasSubstr("--insecure twice")));
  EXPECT_OK(InsecureCredentials(false)->Check(here));
  EXPECT_OK(InsecureCredentials(true)->Check(everywhere));
}

}  // namespace
}  // namespace rivulet
