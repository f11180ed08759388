#include "certificates/authority.h"

#include <openssl/core_names.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <filesystem>

#include "certificates/request.h"
#include "certificates/verify.h"
#include "engine/base/error_facts.h"
#include "tests/certificates/test_authority.h"

namespace rivulet::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

int ModeOf(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 ? static_cast<int>(info.st_mode & 07777) : -1;
}

class Authorities : public AuthorityTest {
 protected:
  void SetUp() override { ASSERT_OK(Init()); }
};

TEST_F(Authorities, Init_IsAFolderForItsOwnerAlone) {
  EXPECT_EQ(ModeOf(Path("ca")), 0700);
  for (const char* file : {"authority.key", "authority.crt", "index.txt", "revoked.crl"})
    EXPECT_EQ(ModeOf(Path("ca/") + file), 0600) << file;
  ASSERT_OK_AND_ASSIGN(const auto authority, Open());
  EXPECT_TRUE(authority->certificate().authority);
  EXPECT_EQ(authority->certificate().subject, "Heart study");
  EXPECT_EQ(authority->certificate().serial.size(), 32u);
  EXPECT_EQ(DaysLeft(authority->certificate().validity.until, now()), 3650);
}

TEST_F(Authorities, InitWhereSomethingIs_IsRefused) {
  const std::string key = ContentOf(Path("ca/authority.key"));
  EXPECT_EQ(folder_.Relative(ErrorOf(Init()).substr(1)),
            "ca' holds an authority already, which sites trust; to begin another one give another folder");
  EXPECT_EQ(ContentOf(Path("ca/authority.key")), key);
  Write("file", "x");
  EXPECT_THAT(ErrorOf(Init("file")), HasSubstr("is there already"));
  EXPECT_THAT(Init("no/where/ca"), StatusIs(absl::StatusCode::kNotFound, HasSubstr("no/where")));
}

TEST_F(Authorities, InitWithAnAbsurdNameOrTime_IsRefused) {
  EXPECT_THAT(Authority::Init(fs_, clock_, Path("b"), "a\nb", 1), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(Authority::Init(fs_, clock_, Path("b"), "", 1), StatusIs(absl::StatusCode::kInvalidArgument));
  for (const int days : {0, -1, kMostDays + 1}) {
    EXPECT_THAT(Authority::Init(fs_, clock_, Path("b"), "b", days),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("1 to 36500 days")));
  }
  EXPECT_FALSE(fs_.Exists(Path("b")));
}

TEST_F(Authorities, Issue_MakesAFolderForItsOwnerAlone) {
  ASSERT_OK_AND_ASSIGN(const IndexRow row, Issue("client/ward 7", "out"));
  EXPECT_EQ(ModeOf(Path("out")), 0700);
  EXPECT_EQ(ModeOf(Path("out/node.key")), 0600);
  ASSERT_OK_AND_ASSIGN(const NodeIdentity identity, Load("out"));
  EXPECT_EQ(identity.name, Name("client/ward 7"));
  EXPECT_EQ(identity.serial, row.serial);
  EXPECT_EQ(DaysLeft(identity.validity.until, now()), 365);
  EXPECT_THAT(fs_.List(folder_.path()).value(), ElementsAre("ca", "out"));  // and nothing half made
}

TEST_F(Authorities, IssueOfANameThatHasACertificate_IsRefused) {
  ASSERT_OK_AND_ASSIGN(const IndexRow row, Issue("client/a", "a"));
  EXPECT_THAT(Issue("client/a", "again"),
              StatusIs(absl::StatusCode::kAlreadyExists,
                       fmt::format("'client/a' has the certificate {}, good until 2026-01-31; renew it ('rivulet ca "
                                   "renew'), or revoke it first",
                                   row.serial)));
  EXPECT_FALSE(fs_.Exists(Path("again")));
  // Another role is another name.
  EXPECT_OK(Issue("operator/a", "operator"));
  PassDays(366);
  EXPECT_OK(Issue("client/a", "again"));
}

TEST_F(Authorities, IssueToAPlaceThatIsTaken_SignsNothing) {
  Write("a", "mine");
  EXPECT_THAT(Issue("client/a", "a"), StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("is there already")));
  EXPECT_EQ(ContentOf(Path("a")), "mine");
  ASSERT_OK_AND_ASSIGN(const auto authority, Open());
  EXPECT_THAT(authority->rows(), IsEmpty());
}

TEST_F(Authorities, Hosts_AreForWhomOthersConnectTo) {
  EXPECT_THAT(Issue("client/a", "a", {"a.example"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("names no host")));
  EXPECT_THAT(Issue("aggregator/a", "a"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--host")));
  EXPECT_THAT(Issue("aggregator/a", "a", {"*.example"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("wildcards")));
  ASSERT_OK(Issue("aggregator/a", "a", {"a.example", "192.0.2.7", "2001:db8::7", "a.example"}));
  ASSERT_OK_AND_ASSIGN(const NodeIdentity identity, Load("a"));
  EXPECT_THAT(identity.hosts, ElementsAre("a.example", "192.0.2.7", "2001:db8::7"));
}

TEST_F(Authorities, NothingLastsLongerThanTheAuthority) {
  ASSERT_OK(Init("short", 100));
  EXPECT_THAT(Issue("client/a", "a", {}, 101, "short"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("has 100 days left")));
  ASSERT_OK_AND_ASSIGN(const IndexRow row, Issue("client/a", "a", {}, std::nullopt, "short"));
  EXPECT_EQ(DaysLeft(row.validity.until, now()), 100);
  PassDays(100);
  EXPECT_THAT(Issue("client/b", "b", {}, std::nullopt, "short"),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("'rivulet ca renew authority'")));
}

TEST_F(Authorities, Renewal_KeepsNameKeyAndHosts) {
  ASSERT_OK(Issue("coordinator/fl.example", "a", {"fl.example", "192.0.2.7"}));
  PassDays(300);
  ASSERT_OK_AND_ASSIGN(const auto authority, Open());
  ASSERT_OK_AND_ASSIGN(const IndexRow* last, authority->LastRowOf(Name("coordinator/fl.example")));
  ASSERT_OK_AND_ASSIGN(const KeyHandle key, PublicKeyOf(last->public_key));
  Delivery delivery(fs_, Path("a.crt"), Delivery::Form::kFile);
  const Subject subject = last->subject;
  ASSERT_OK(
      authority->Issue({.subject = subject,
                        .public_key = key.get(),
                        .renewal = true,
                        .files = [](const Certificate& c) { return std::vector<DeliveredFile>{{.bytes = c.Pem()}}; }},
                       delivery));
  EXPECT_EQ(ModeOf(Path("a.crt")) & 0400, 0400);
  ASSERT_OK(fs_.Rename(Path("a.crt"), Path("a/node.crt")));
  PassDays(300);  // the old one has ended
  ASSERT_OK_AND_ASSIGN(const NodeIdentity identity, Load("a"));
  EXPECT_EQ(identity.name, Name("coordinator/fl.example"));
  EXPECT_THAT(identity.hosts, ElementsAre("fl.example", "192.0.2.7"));
}

TEST_F(Authorities, RenewalOfWhatIsUnknownOrRevoked_IsRefused) {
  ASSERT_OK(Issue("client/hospital", "a"));
  ASSERT_OK_AND_ASSIGN(const auto authority, Open());
  EXPECT_THAT(authority->LastRowOf(Name("client/hosptal")),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("Did you mean 'client/hospital'?")));
  ASSERT_OK(authority->RevokeName(Name("client/hospital"), RevocationReason::kKeyCompromise));
  ASSERT_OK_AND_ASSIGN(const KeyHandle key, MakeKey());
  Delivery delivery(fs_, Path("b"), Delivery::Form::kFile);
  EXPECT_THAT(
      authority->Issue({.subject = SubjectOf("client/hospital"), .public_key = key.get(), .renewal = true}, delivery),
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("(key-compromise), which a renewal would undo")));
}

TEST_F(Authorities, RenewedAuthority_KeepsWhatItSigned) {
  ASSERT_OK(Issue("client/a", "a"));
  PassDays(200);
  {
    ASSERT_OK_AND_ASSIGN(const auto authority, Open());
    ASSERT_OK(authority->Renew(7300));
  }
  ASSERT_OK(fs_.Rename(Path("ca/authority.crt"), Path("a/authority.crt")));
  ASSERT_OK_AND_ASSIGN(const NodeIdentity identity, Load("a"));
  EXPECT_EQ(DaysLeft(identity.authority.validity.until, now()), 7300);
}

// Anybody may write a revoked serial and another's name into a certificate of their own: nobody's lease ends for that.
TEST_F(Authorities, RevokedCertificate_IsNamedAsAFactIfThisAuthoritySignedIt) {
  ASSERT_OK_AND_ASSIGN(const IndexRow a, Issue("client/a", "a"));
  ASSERT_OK_AND_ASSIGN(const auto authority, Open());
  ASSERT_OK(authority->RevokeName(Name("client/a"), RevocationReason::kSuperseded));
  ASSERT_OK_AND_ASSIGN(const RevocationList list,
                       ReadRevocationList(authority->revocation_list(), "l", authority->certificate()));
  ASSERT_OK_AND_ASSIGN(const Certificate certificate, ReadCertificate(ContentOf(Path("a/node.crt")), "a"));
  const Status refused =
      VerifyCertificate(certificate, authority->certificate(), &list, CertificatePurpose::kConnect, now());
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("was revoked")));
  EXPECT_EQ(FactOf(refused, kRevokedFact), a.serial);
  EXPECT_EQ(FactOf(refused, kRevokedNameFact), "client/a");
  // The same, under the eyes of an authority that has not signed it.
  const Status forged = VerifyCertificate(certificate, certificate, &list, CertificatePurpose::kConnect, now());
  EXPECT_FALSE(forged.ok());
  EXPECT_EQ(FactOf(forged, kRevokedFact), "");
}

// `rivulet ca` signs none; other programs may, with the authority's key.
TEST_F(Authorities, NodeWhoseCertificateMaySignOthers_IsRefused) {
  ASSERT_OK(Issue("client/a", "a"));
  ASSERT_OK_AND_ASSIGN(const auto authority, Open());
  ASSERT_OK_AND_ASSIGN(const KeyHandle key, ReadKey(ContentOf(Path("ca/authority.key")), "key"));
  ASSERT_OK_AND_ASSIGN(const Certificate good, ReadCertificate(ContentOf(Path("a/node.crt")), "a"));
  const auto verified = [&](const Certificate& certificate) {
    return VerifyCertificate(certificate, authority->certificate(), nullptr, CertificatePurpose::kConnect, now());
  };
  for (const char* constraints : {"critical,CA:FALSE", "critical,CA:TRUE", "CA:TRUE,pathlen:0"}) {
    X509Handle x509(X509_dup(good.x509.get()));
    const int place = X509_get_ext_by_NID(x509.get(), NID_basic_constraints, -1);
    ASSERT_GE(place, 0);
    X509_EXTENSION_free(X509_delete_ext(x509.get(), place));
    const ExtensionHandle extension(X509V3_EXT_conf_nid(nullptr, nullptr, NID_basic_constraints, constraints));
    ASSERT_EQ(X509_add_ext(x509.get(), extension.get(), -1), 1);
    ASSERT_GT(X509_sign(x509.get(), key.get(), EVP_sha256()), 0);
    ASSERT_OK_AND_ASSIGN(const Certificate certificate, CertificateOf(std::move(x509), "changed"));
    if (std::string_view(constraints) == "critical,CA:FALSE") {
      EXPECT_OK(verified(certificate)) << "signed anew, it counts as before";
    } else {
      EXPECT_THAT(verified(certificate), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("(CA:TRUE)")));
    }
  }
}

TEST_F(Authorities, Revoke_IsInTheListAndCannotBeDoneTwice) {
  ASSERT_OK_AND_ASSIGN(const IndexRow a, Issue("client/a", "a"));
  ASSERT_OK_AND_ASSIGN(const IndexRow b, Issue("client/b", "b"));
  ASSERT_OK_AND_ASSIGN(const auto authority, Open());
  ASSERT_OK_AND_ASSIGN(const RevocationList empty,
                       ReadRevocationList(authority->revocation_list(), "l", authority->certificate()));
  EXPECT_THAT(empty.revocations, IsEmpty());
  ASSERT_OK(authority->RevokeName(Name("client/a"), RevocationReason::kSuperseded));
  ASSERT_OK_AND_ASSIGN(const RevocationList list,
                       ReadRevocationList(ContentOf(Path("ca/revoked.crl")), "l", authority->certificate()));
  EXPECT_TRUE(list.Contains(a.serial));
  EXPECT_FALSE(list.Contains(b.serial));
  EXPECT_GT(list.number, empty.number);
  EXPECT_EQ(list.revocations.at(a.serial), (Revocation{.at = now(), .reason = RevocationReason::kSuperseded}));
  EXPECT_THAT(authority->RevokeName(Name("client/a"), RevocationReason::kUnspecified),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("was revoked on 2025-01-31")));
  ASSERT_OK(authority->RevokeSerial(b.serial, RevocationReason::kUnspecified));
  EXPECT_THAT(authority->RevokeSerial("00FF", RevocationReason::kUnspecified), StatusIs(absl::StatusCode::kNotFound));
  // The name is free again.
  EXPECT_THAT(authority->ActiveRowsOf(Name("client/a")), IsEmpty());
}

TEST_F(Authorities, CompromisedKey_IsNotCertifiedAgainUnderAnyNameOrForm) {
  ASSERT_OK(Issue("client/a", "a"));
  ASSERT_OK_AND_ASSIGN(const auto authority, Open());
  ASSERT_OK_AND_ASSIGN(const KeyHandle key, ReadKey(ContentOf(Path("a/node.key")), "k"));
  const auto certify = [&](EVP_PKEY* public_key, std::string_view name, bool renewal) {
    Delivery delivery(fs_, Path("again.crt"), Delivery::Form::kFile);
    return authority->Issue(
        {.subject = SubjectOf(name),
         .days = std::nullopt,
         .public_key = public_key,
         .renewal = renewal,
         .files = [](const Certificate& c) { return std::vector<DeliveredFile>{{.bytes = c.Pem()}}; }},
        delivery);
  };
  ASSERT_OK(authority->RevokeName(Name("client/a"), RevocationReason::kKeyCompromise));
  const auto refused =
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("revoked on 2025-01-31 as compromised"));
  EXPECT_THAT(certify(key.get(), "client/a", false), refused);
  EXPECT_THAT(certify(key.get(), "client/a", true), refused);
  EXPECT_THAT(certify(key.get(), "operator/b", false), refused);
  // The same point, written in another form.
  const KeyHandle compressed(EVP_PKEY_dup(key.get()));
  ASSERT_EQ(EVP_PKEY_set_utf8_string_param(compressed.get(), OSSL_PKEY_PARAM_EC_POINT_CONVERSION_FORMAT, "compressed"),
            1);
  EXPECT_NE(PublicKeyText(compressed.get()).value(), PublicKeyText(key.get()).value());
  EXPECT_THAT(certify(compressed.get(), "client/a", false), refused);
  EXPECT_FALSE(fs_.Exists(Path("again.crt")));
  // Another key of the name is as good as any.
  ASSERT_OK_AND_ASSIGN(const KeyHandle fresh, MakeKey());
  EXPECT_OK(certify(fresh.get(), "client/a", false));
}

TEST_F(Authorities, CompromisedKey_IsRevokedInEveryCertificateThatHasIt) {
  ASSERT_OK_AND_ASSIGN(const IndexRow a, Issue("client/a", "a"));
  ASSERT_OK(Issue("client/b", "b"));
  ASSERT_OK_AND_ASSIGN(const auto authority, Open());
  ASSERT_OK_AND_ASSIGN(const KeyHandle key, ReadKey(ContentOf(Path("a/node.key")), "k"));
  const auto certify = [&](std::string_view name, const std::string& out, bool renewal) {
    Delivery delivery(fs_, Path(out), Delivery::Form::kFile);
    return authority->Issue(
        {.subject = SubjectOf(name),
         .days = std::nullopt,
         .public_key = key.get(),
         .renewal = renewal,
         .files = [](const Certificate& c) { return std::vector<DeliveredFile>{{.bytes = c.Pem()}}; }},
        delivery);
  };
  ASSERT_OK(certify("client/a", "renewed.crt", true));
  ASSERT_OK(certify("operator/a", "operator.crt", false));
  ASSERT_OK_AND_ASSIGN(const auto revoked, authority->RevokeSerial(a.serial, RevocationReason::kKeyCompromise));
  EXPECT_EQ(revoked.size(), 3u);
  EXPECT_THAT(authority->ActiveRowsOf(Name("operator/a")), IsEmpty());
  EXPECT_EQ(authority->ActiveRowsOf(Name("client/b")).size(), 1u);
}

// That a key is compromised is often found after its certificate has gone for another reason.
TEST_F(Authorities, CompromiseFoundLater_IsNoted) {
  ASSERT_OK_AND_ASSIGN(const IndexRow a, Issue("client/a", "a"));
  ASSERT_OK_AND_ASSIGN(const IndexRow b, Issue("client/b", "b"));
  ASSERT_OK_AND_ASSIGN(const auto authority, Open());
  ASSERT_OK(authority->RevokeSerial(a.serial, RevocationReason::kCessation));
  ASSERT_OK(authority->RevokeName(Name("client/b"), RevocationReason::kSuperseded));
  PassDays(3);
  ASSERT_OK(authority->RevokeSerial(a.serial, RevocationReason::kKeyCompromise));
  ASSERT_OK(authority->RevokeName(Name("client/b"), RevocationReason::kKeyCompromise));
  ASSERT_OK_AND_ASSIGN(const RevocationList list,
                       ReadRevocationList(authority->revocation_list(), "l", authority->certificate()));
  for (const std::string& serial : {a.serial, b.serial}) {
    EXPECT_EQ(list.revocations.at(serial),
              (Revocation{.at = now() - 3 * kSecondsPerDay, .reason = RevocationReason::kKeyCompromise}));
  }
  EXPECT_THAT(authority->RevokeName(Name("client/b"), RevocationReason::kKeyCompromise),
              StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST_F(Authorities, FilesOfSomebodyInItsFolder_StayAndBlockNothing) {
  const std::string half = "index.txt.tmp-0123456789abcdef";
  Write("ca/" + half, "half");
  const std::vector<std::string> somebodys = {"notes.tmp-old", "index.txt.tmp-mine", "x.tmp-0123456789abcdef"};
  for (const std::string& name : somebodys) Write("ca/" + name, "somebody's");
  for (const char* folder : {"ca/backup.tmp-1", "ca/index.txt.tmp-fedcba9876543210"})
    std::filesystem::create_directory(Path(folder));
  ASSERT_OK(Issue("client/a", "a"));
  EXPECT_FALSE(fs_.Exists(Path("ca/" + half)));
  for (const std::string& name : somebodys) EXPECT_EQ(ContentOf(Path("ca/" + name)), "somebody's");
  EXPECT_TRUE(fs_.Exists(Path("ca/backup.tmp-1")));
  EXPECT_TRUE(fs_.Exists(Path("ca/index.txt.tmp-fedcba9876543210")));
}

TEST_F(Authorities, MissingOrDamagedList_IsMadeAnewFromTheIndex) {
  ASSERT_OK_AND_ASSIGN(const IndexRow a, Issue("client/a", "a"));
  ASSERT_OK_AND_ASSIGN(auto authority, Open());
  ASSERT_OK(authority->RevokeName(Name("client/a"), RevocationReason::kCessation));
  authority.reset();
  for (const bool missing : {true, false}) {
    Write("ca/revoked.crl", "junk");
    if (missing) {
      ASSERT_OK(fs_.Remove(Path("ca/revoked.crl")));
    }
    ASSERT_OK_AND_ASSIGN(authority, Open());
    authority.reset();
    ASSERT_OK_AND_ASSIGN(authority, Authority::OpenToRead(fs_, clock_, Path("ca")));
    ASSERT_OK_AND_ASSIGN(const RevocationList list,
                         ReadRevocationList(authority->revocation_list(), "l", authority->certificate()));
    EXPECT_TRUE(list.Contains(a.serial));
  }
}

TEST_F(Authorities, OpenOfWhatIsNone_SaysWhatToDo) {
  EXPECT_THAT(Open("nowhere"), StatusIs(absl::StatusCode::kNotFound, HasSubstr("'rivulet ca init'")));
  ASSERT_OK(Init("other"));
  ASSERT_OK(fs_.Rename(Path("other/authority.key"), Path("ca/authority.key")));
  EXPECT_THAT(Open(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("is not that of authority.crt beside it")));
  EXPECT_THAT(Open("other"), StatusIs(absl::StatusCode::kFailedPrecondition,
                                      HasSubstr("nothing can be signed without it; restore it from a backup")));
  EXPECT_OK(Authority::OpenToRead(fs_, clock_, Path("other")));
  Write("ca/authority.key", "junk");
  EXPECT_THAT(Open(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("authority.key' holds no private key in PEM")));
  Write("ca/authority.crt", "junk");
  EXPECT_THAT(Open(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("authority.crt' holds no certificate in PEM")));
}

TEST_F(Authorities, KeyThatEverybodyMayRead_IsRefused) {
  ASSERT_EQ(chmod(Path("ca/authority.key").c_str(), 0644), 0);
  EXPECT_THAT(Open(), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("has the mode 0644")));
}

TEST_F(Authorities, IndexThatWasChanged_IsRefusedWithItsLine) {
  ASSERT_OK(Issue("client/a", "a"));
  const std::string index = ContentOf(Path("ca/index.txt"));
  Write("ca/index.txt", index.substr(0, index.size() - 1));
  EXPECT_THAT(Open(), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("no complete index")));
  Write("ca/index.txt", index + "zz rivulet:client/b - 2025-01-31T00:00:00Z 2026-01-31T00:00:00Z k\n");
  EXPECT_THAT(Open(), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("line 3 of")));
  ASSERT_OK(fs_.Remove(Path("ca/index.txt")));
  EXPECT_THAT(Open(), StatusIs(absl::StatusCode::kDataLoss,
                               HasSubstr("the record of issued and revoked certificates, is missing")));
}

TEST_F(Authorities, TwoAtOnce_AreRefused) {
  ASSERT_OK_AND_ASSIGN(const auto authority, Open());
  EXPECT_THAT(Open(), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("another process signs with the authority")));
  EXPECT_OK(Authority::OpenToRead(fs_, clock_, Path("ca")));
}

TEST_F(Authorities, Request_IsCertifiedWithoutItsKey) {
  ASSERT_OK_AND_ASSIGN(const KeyHandle key, MakeKey());
  ASSERT_OK_AND_ASSIGN(const std::string pem, MakeRequest(Name("client/a"), key.get()));
  ASSERT_OK_AND_ASSIGN(const CertificateRequest request, ReadRequest(pem, "node.csr"));
  EXPECT_EQ(request.name, Name("client/a"));
  EXPECT_EQ(PublicKeyText(request.public_key.get()).value(), PublicKeyText(key.get()).value());
}

TEST_F(Authorities, RequestThatWasChanged_IsRefused) {
  ASSERT_OK_AND_ASSIGN(const KeyHandle key, MakeKey());
  ASSERT_OK_AND_ASSIGN(const std::string pem, MakeRequest(Name("client/aaaaaaaaaaaaaaaaaaaaaaaa"), key.get()));
  EXPECT_THAT(ReadRequest("junk", "node.csr"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'rivulet ca request'")));
  int refused = 0;
  for (size_t at = 30; at < pem.size() - 40; at += 7) {
    std::string changed = pem;
    if (changed[at] == '\n') continue;
    changed[at] = changed[at] == 'A' ? 'B' : 'A';
    EXPECT_THAT(ReadRequest(changed, "node.csr"), StatusIs(absl::StatusCode::kInvalidArgument));
    ++refused;
  }
  EXPECT_GT(refused, 40);
}

TEST_F(Authorities, KeysThatAreTooWeakOrEncrypted_AreRefused) {
  const KeyHandle weak(EVP_RSA_gen(1024)), strong(EVP_RSA_gen(2048)), p384(EVP_EC_gen("P-384")),
      bitcoin(EVP_EC_gen("secp256k1")), edwards(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519")),
      exchange(EVP_PKEY_Q_keygen(nullptr, nullptr, "X25519"));
  EXPECT_THAT(CheckKey(weak.get(), "x"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("(RSA 1024)")));
  EXPECT_THAT(CheckKey(bitcoin.get(), "x"), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(CheckKey(exchange.get(), "x"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("X25519")));
  EXPECT_OK(CheckKey(strong.get(), "x"));
  EXPECT_OK(CheckKey(p384.get(), "x"));
  EXPECT_OK(CheckKey(edwards.get(), "x"));
  EXPECT_EQ(KeyText(p384.get()), "EC P-384");
  EXPECT_EQ(KeyText(edwards.get()), "Ed25519");
  const BioHandle bio = EmptyBio();
  ASSERT_EQ(PEM_write_bio_PKCS8PrivateKey(bio.get(), p384.get(), EVP_aes_256_cbc(), "secret", 6, nullptr, nullptr), 1);
  EXPECT_THAT(ReadKey(TextOf(bio.get()), "node.key"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("the key in 'node.key' is encrypted")));
}

}  // namespace
}  // namespace rivulet::testing
