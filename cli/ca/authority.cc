// rivulet ca init, renew, revoke: the authority itself, and certificates that it has signed before.
#include <algorithm>
#include <cctype>

#include "certificates/key.h"
#include "certificates/kit.h"
#include "certificates/request.h"
#include "cli/ca/commands.h"

namespace rivulet {
namespace {

struct CaInitOptions {
  std::string folder = kAuthorityFolder, name;
  std::optional<int64_t> days = kAuthorityDays;
};

Status InitAuthority(const CaInitOptions& options) {
  FileSystem& fs = FileSystem::Default();
  RIVULET_RETURN_IF_ERROR(
      Authority::Init(fs, Clock::System(), options.folder, options.name, static_cast<int>(*options.days)));
  RIVULET_ASSIGN_OR_RETURN(const auto authority, Authority::OpenToRead(fs, Clock::System(), options.folder));
  fmt::print("authority '{}' in {}, good until {}\n", authority->certificate().subject, options.folder,
             DayText(authority->certificate().validity.until));
  fmt::print("{} can admit anyone: keep it on a separate machine, with a backup\n",
             JoinPath(options.folder, "authority.key"));
  return absl::OkStatus();
}

struct CaRenewOptions {
  std::string folder = kAuthorityFolder, name, request, out;
  std::optional<int64_t> days;
};

Status RenewAuthority(const CaRenewOptions& options) {
  if (!options.request.empty() || !options.out.empty())
    return UsageError("an authority is renewed in its own folder; leave out --request and --out");
  RIVULET_ASSIGN_OR_RETURN(const auto authority,
                           Authority::OpenToSign(FileSystem::Default(), Clock::System(), options.folder));
  RIVULET_RETURN_IF_ERROR(authority->Renew(static_cast<int>(options.days.value_or(kAuthorityDays))));
  fmt::print("authority '{}' in {}, good until {}\n", authority->certificate().subject, options.folder,
             DayText(authority->certificate().validity.until));
  fmt::print("its key is the same: give {} to every site before the old one ends\n",
             JoinPath(options.folder, kAuthorityCertificate));
  return absl::OkStatus();
}

// The site's key stays unless it sends a request with another: the result is a certificate, which is no secret.
Status RenewCertificate(const CaRenewOptions& options) {
  if (options.name == "authority") return RenewAuthority(options);
  RIVULET_ASSIGN_OR_RETURN(const CertificateName name, NameArgument(options.name));
  FileSystem& fs = FileSystem::Default();
  RIVULET_ASSIGN_OR_RETURN(const auto authority, Authority::OpenToSign(fs, Clock::System(), options.folder));
  RIVULET_ASSIGN_OR_RETURN(const IndexRow* last, authority->LastRowOf(name));
  KeyHandle public_key;
  if (options.request.empty()) {
    RIVULET_ASSIGN_OR_RETURN(public_key, PublicKeyOf(last->public_key));
  } else {
    RIVULET_ASSIGN_OR_RETURN(public_key, RequestedKey(fs, options.request, name));
  }
  Delivery delivery(fs, options.out.empty() ? name.FileName() + ".crt" : options.out, Delivery::Form::kFile);
  const Subject subject = last->subject;
  RIVULET_ASSIGN_OR_RETURN(const IndexRow row,
                           authority->Issue({.subject = subject,
                                             .days = options.days,
                                             .public_key = public_key.get(),
                                             .renewal = true,
                                             .files =
                                                 [](const Certificate& certificate) {
                                                   return std::vector<DeliveredFile>{{.bytes = certificate.Pem()}};
                                                 }},
                                            delivery));
  PrintSigned(row);
  fmt::print("{}: put it in the place of the site's {}; the old certificate is good until it ends\n", delivery.path(),
             kNodeCertificate);
  return absl::OkStatus();
}

struct CaRevokeOptions {
  std::string folder = kAuthorityFolder, name, serial, reason = "unspecified";
};

Status RevokeCertificates(const CaRevokeOptions& options) {
  if (options.name.empty() == options.serial.empty())
    return UsageError("nothing names the certificates to revoke; give NAME for all of a name, or --serial for one");
  StatusOr<RevocationReason> reason = ParseReason(options.reason);
  if (!reason.ok()) return AsUsageError(Annotate(reason.status(), "--reason"));
  std::optional<CertificateName> name;
  if (options.serial.empty()) {
    RIVULET_ASSIGN_OR_RETURN(name, NameArgument(options.name));
  }
  RIVULET_ASSIGN_OR_RETURN(const auto authority,
                           Authority::OpenToSign(FileSystem::Default(), Clock::System(), options.folder));
  std::vector<IndexRow> revoked;
  if (name) {
    RIVULET_ASSIGN_OR_RETURN(revoked, authority->RevokeName(*name, *reason));
  } else {
    std::string serial = options.serial;
    std::transform(serial.begin(), serial.end(), serial.begin(),
                   [](char c) { return static_cast<char>(std::toupper(static_cast<unsigned char>(c))); });
    RIVULET_ASSIGN_OR_RETURN(revoked, authority->RevokeSerial(serial, *reason));
  }
  for (const IndexRow& row : revoked) {
    fmt::print("{}: certificate {} revoked ({})\n", row.subject.name.ToString(), row.serial,
               ReasonText(row.revocation->reason));
  }
  fmt::print("{}: give it to the coordinator and the aggregators; until they have it they know nothing of this\n",
             JoinPath(options.folder, kRevokedList));
  return absl::OkStatus();
}

}  // namespace

StatusOr<KeyHandle> RequestedKey(FileSystem& fs, const std::string& path, const CertificateName& name) {
  RIVULET_ASSIGN_OR_RETURN(const std::string pem, fs.ReadAll(path));
  RIVULET_ASSIGN_OR_RETURN(CertificateRequest request, ReadRequest(pem, path));
  if (request.name && *request.name != name) {
    return InvalidArgument("the request '{}' is for '{}', not for '{}'; ask its sender, and give the right name", path,
                           request.name->ToString(), name.ToString());
  }
  return std::move(request.public_key);
}

Command CaInitCommand() {
  auto options = std::make_shared<CaInitOptions>();
  Command command{.name = "init",
                  .summary = "Make an authority: a folder with its key, certificate, index and revocation list.",
                  .example = "rivulet ca init --name 'Heart study'"};
  AddAuthorityFolder(command, &options->folder);
  command.Required("--name", "TEXT", &options->name, "display name in its certificates")
      .Option("--days", "N", &options->days, fmt::format("days of validity [{}]", kAuthorityDays),
              {.min = 1, .max = kMostDays});
  command.run = [options] { return InitAuthority(*options); };
  return command;
}

Command CaRenewCommand() {
  auto options = std::make_shared<CaRenewOptions>();
  Command command{.name = "renew",
                  .summary = "Sign a new certificate of the same name for the site's existing key.",
                  .example = "rivulet ca renew client/hospital-a --out hospital-a.crt"};
  command.Positional("NAME", &options->name, RoleNamesHelp() + ", or 'authority' for the authority's certificate");
  AddAuthorityFolder(command, &options->folder);
  command.Option("--request", "FILE", &options->request, "the site's request for a new key")
      .Option("--days", "N", &options->days,
              fmt::format("days of validity [{}; the authority's {}]", kCertificateDays, kAuthorityDays),
              {.min = 1, .max = kMostDays})
      .Option("--out", "FILE", &options->out,
              "the certificate file to write [its name with .crt, client-hospital-a.crt]");
  command.run = [options] { return RenewCertificate(*options); };
  return command;
}

Command CaRevokeCommand() {
  auto options = std::make_shared<CaRevokeOptions>();
  Command command{.name = "revoke",
                  .summary = "Revoke certificates, and sign the revocation list.",
                  .example = "rivulet ca revoke client/hospital-a --reason key-compromise"};
  command.OptionalPositional("NAME", &options->name, RoleNamesHelp() + ": revoke all its valid certificates");
  AddAuthorityFolder(command, &options->folder);
  command.Option("--serial", "HEX", &options->serial, "revoke one certificate instead, by its serial number")
      .Option("--reason", "WORD", &options->reason,
              "unspecified, key-compromise, superseded or cessation [unspecified]");
  command.run = [options] { return RevokeCertificates(*options); };
  return command;
}

}  // namespace rivulet
