#include "certificates/name.h"

namespace rivulet::testing {
namespace {

using ::testing::HasSubstr;

constexpr RoleSpec kReaderSpec{.name = "reader", .text = "a reader"};
const RegisterRole kReader(kReaderSpec);

TEST(CertificateName, OfAClient_IsAUriAndAFileName) {
  ASSERT_OK_AND_ASSIGN(const CertificateName name, ParseCertificateName("client/hospital-a"));
  EXPECT_EQ(name.role, Role::kClient);
  EXPECT_EQ(name.ToString(), "client/hospital-a");
  EXPECT_EQ(name.Uri(), "rivulet:client/hospital-a");
  EXPECT_EQ(name.FileName(), "client-hospital-a");
}

TEST(CertificateName, WhateverAClientMayBeCalled_ComesBackFromItsUri) {
  for (const char* id : {"ward 7", "Charité", "a/b", "..", "%41", "x,DNS:evil", "日本", "rivulet:client/x"}) {
    const CertificateName name{.role = Role::kClient, .id = id};
    EXPECT_EQ(name.Uri().find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~:/%"),
              std::string::npos)
        << name.Uri();
    EXPECT_EQ(name.FileName().find('/'), std::string::npos);
    ASSERT_OK_AND_ASSIGN(const CertificateName back, NameOfUri(name.Uri()));
    EXPECT_EQ(back, name);
  }
}

TEST(CertificateName, OfARegisteredRole_IsReadAndWritten) {
  ASSERT_OK_AND_ASSIGN(const CertificateName name, ParseCertificateName("reader/ann"));
  EXPECT_EQ(name.role, Role(kReaderSpec));
  EXPECT_FALSE(ServesOthers(name.role));
  ASSERT_OK_AND_ASSIGN(const CertificateName back, NameOfUri("rivulet:reader/ann"));
  EXPECT_EQ(back, name);
}

TEST(CertificateNameDeathTest, RoleThatIsRegisteredTwice_EndsTheProgram) {
  EXPECT_DEATH(RegisterRole(roles::kClient), "the role 'client' is registered twice");
}

// As certificates were issued before aggregators had that name.
TEST(CertificateName, WithTheEarlierNameOfARole_IsReadAndWrittenWithTheNewOne) {
  const CertificateName north{.role = Role::kAggregator, .id = "ward 7"};
  ASSERT_OK_AND_ASSIGN(const CertificateName typed, ParseCertificateName("tier/ward 7"));
  EXPECT_EQ(typed, north);
  ASSERT_OK_AND_ASSIGN(const CertificateName certified, NameOfUri("rivulet:tier/ward%207"));
  EXPECT_EQ(certified, north);
  EXPECT_EQ(certified.Uri(), "rivulet:aggregator/ward%207");
  EXPECT_THAT(NameOfUri("rivulet:tier/ward 7"), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(CertificateName, AUriInAnotherSpelling_IsRefused) {
  for (const char* uri : {"rivulet:client/%61", "rivulet:client/a b", "rivulet:client/%c3%a9", "rivulet:client/",
                          "rivulet:nurse/a", "rivulet:client", "client/a", "rivulet:client/a%", "rivulet:client/%00",
                          "rivulet:client/a%0A", "rivulet:client/%E2%80%AEa", "RIVULET:client/a"}) {
    EXPECT_THAT(NameOfUri(uri), StatusIs(absl::StatusCode::kInvalidArgument)) << uri;
  }
}

TEST(CertificateName, ThatNobodyCanRead_IsRefused) {
  EXPECT_EQ(ErrorOf(ParseCertificateName("hospital-a")),
            "'hospital-a' is not a name; write client/ID, aggregator/ID, operator/ID, coordinator/HOST or reader/ID");
  EXPECT_EQ(ErrorOf(ParseCertificateName("clinet/a")),
            "'clinet' is no role; there are client, aggregator, operator, coordinator, reader. Did you mean 'client'?");
  EXPECT_THAT(ErrorOf(ParseCertificateName("client/")), HasSubstr("the name of a client must not be empty"));
  EXPECT_THAT(ErrorOf(ParseCertificateName("client/a\nb")), HasSubstr("U+000A"));
  EXPECT_THAT(ErrorOf(ParseCertificateName("client/" + std::string(256, 'a'))), HasSubstr("256 bytes"));
  EXPECT_THAT(ErrorOf(ParseCertificateName("coordinator/a b")), HasSubstr("'a b' is not a host"));
}

TEST(Hosts, AreDnsNamesAndAddresses) {
  for (const char* host : {"fl.example.org", "localhost", "192.0.2.7", "::1", "2001:db8::7", "a_b", "7up.example"})
    EXPECT_OK(CheckHost(host));
  for (const char* host : {"", "*.example.org", "a b", "a..b", "-a", "a-", ".a", "[::1]", "1.2.3", "300.1.1.1",
                           "fl.example.org:7000", "a/b"}) {
    EXPECT_THAT(CheckHost(host), StatusIs(absl::StatusCode::kInvalidArgument)) << host;
  }
  EXPECT_THAT(CheckHost(std::string(254, 'a')), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(CheckHost(std::string("127.0.0.1\0.example.org", 22)), StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace rivulet::testing
