#include "federated/transport/credentials.h"

namespace rivulet {
namespace {

TEST(ParseAddress, HostAndPort_AreSplit) {
  const auto address = ParseAddress("127.0.0.1:7000");
  ASSERT_TRUE(address.ok());
  EXPECT_EQ(address->host, "127.0.0.1");
  EXPECT_EQ(address->port, 7000);
  EXPECT_EQ(address->ToString(), "127.0.0.1:7000");
}

TEST(ParseAddress, Ipv6InBrackets_KeepsThemOnlyInText) {
  const auto address = ParseAddress("[::1]:0");
  ASSERT_TRUE(address.ok());
  EXPECT_EQ(address->host, "::1");
  EXPECT_EQ(address->ToString(), "[::1]:0");
}

TEST(ParseAddress, Nonsense_IsRefusedAndQuoted) {
  for (const std::string text : {"", "host", ":80", "host:", "host:x", "host:65536", "host:-1", "ho st:80", "::1:80",
                                 "[::zz]:80", "unix:/tmp/x", "host:80 ", "dns:///host:80"}) {
    const auto address = ParseAddress(text);
    ASSERT_FALSE(address.ok()) << text;
    EXPECT_EQ(address.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(Message(address.status()).find("'" + text + "'"), std::string_view::npos) << address.status();
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
  EXPECT_EQ(once.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(Message(once).find("--insecure twice"), std::string_view::npos) << once;
  EXPECT_TRUE(InsecureCredentials(false)->Check(here).ok());
  EXPECT_TRUE(InsecureCredentials(true)->Check(everywhere).ok());
}

}  // namespace
}  // namespace rivulet
