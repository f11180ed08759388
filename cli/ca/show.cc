// rivulet ca list, show: the certificates, and their validity.
#include <filesystem>

#include "certificates/identity.h"
#include "certificates/key.h"
#include "certificates/kit.h"
#include "certificates/request.h"
#include "cli/ca/commands.h"
#include "engine/base/table.h"

namespace rivulet {
namespace {

struct CaListOptions {
  std::string folder = kAuthorityFolder;
  bool all = false, json = false;
};

std::string HostList(const std::vector<std::string>& words) {
  std::string list;
  for (const std::string& word : words) list += (list.empty() ? "" : ", ") + word;
  return list;
}

Status ListCertificates(const CaListOptions& options) {
  RIVULET_ASSIGN_OR_RETURN(const auto authority,
                           Authority::OpenToRead(FileSystem::Default(), Clock::System(), options.folder));
  const int64_t now = Clock::System().UnixMs() / 1000;
  Table table({{.name = "name"},
               {.name = "state"},
               {.name = "days_left"},
               {.name = "valid_until"},
               {.name = "hosts"},
               {.name = "revoked_at"},
               {.name = "reason"},
               {.name = "serial"},
               {.name = "issued_at", .only_json = true}});
  for (const IndexRow& row : authority->rows()) {
    if (!options.all && !row.Active(now)) continue;
    const auto when = [&](int64_t at) { return options.json ? TimeText(at) : DayText(at); };
    const Cell revoked_at = row.revocation ? Cell(when(row.revocation->at)) : Cell();
    const Cell reason = row.revocation ? Cell(std::string(ReasonText(row.revocation->reason))) : Cell();
    table.Add({row.subject.name.ToString(), std::string(row.State(now)), DaysLeft(row.validity.until, now),
               when(row.validity.until), TextCell(HostList(row.subject.hosts)), revoked_at, reason, row.serial,
               TimeText(row.validity.from)});
  }
  fmt::print("{}", options.json ? table.Json() : table.Text());
  return absl::OkStatus();
}

struct CaShowOptions {
  std::string path;
  bool json = false;
};

void PrintFields(const Fields& fields, bool json) {
  fmt::print("{}", json ? JsonObject(fields) + "\n" : FieldLines(fields));
}

Fields CertificateFields(const Certificate& certificate) {
  const int64_t now = Clock::System().UnixMs() / 1000;
  const std::string name = certificate.name ? certificate.name->ToString() : "";
  return {{"kind", std::string(certificate.authority ? "authority" : "certificate")},
          {"name", certificate.authority ? TextCell(certificate.subject) : TextCell(name)},
          {"hosts", TextCell(HostList(certificate.hosts))},
          {"key", KeyText(X509_get0_pubkey(certificate.x509.get()))},
          {"serial", certificate.serial},
          {"valid_from", TimeText(certificate.validity.from)},
          {"valid_until", TimeText(certificate.validity.until)},
          {"days_left", DaysLeft(certificate.validity.until, now)}};
}

Status ShowAuthority(const CaShowOptions& options) {
  RIVULET_ASSIGN_OR_RETURN(const auto authority,
                           Authority::OpenToRead(FileSystem::Default(), Clock::System(), options.path));
  const int64_t now = Clock::System().UnixMs() / 1000;
  int64_t valid = 0, revoked = 0;
  for (const IndexRow& row : authority->rows()) {
    valid += row.Active(now);
    revoked += row.revocation.has_value();
  }
  Fields fields = CertificateFields(authority->certificate());
  fields.emplace_back("certificates", static_cast<int64_t>(authority->rows().size()));
  fields.emplace_back("valid", valid);
  fields.emplace_back("revoked", revoked);
  PrintFields(fields, options.json);
  return absl::OkStatus();
}

// Readable parts are printed even if the whole is invalid; then the error has the reason.
Status ShowNode(const CaShowOptions& options) {
  FileSystem& fs = FileSystem::Default();
  const std::string path = JoinPath(options.path, kNodeCertificate);
  RIVULET_ASSIGN_OR_RETURN(const std::string pem, fs.ReadAll(path));
  RIVULET_ASSIGN_OR_RETURN(const Certificate certificate, ReadCertificate(pem, path));
  PrintFields(CertificateFields(certificate), options.json);
  RIVULET_ASSIGN_OR_RETURN(const NodeIdentity identity, LoadIdentity(fs, Clock::System(), options.path));
  if (const std::string warning = ExpiryWarning(identity, Clock::System().UnixMs() / 1000); !warning.empty())
    fmt::print(stderr, "{}\n", warning);
  return absl::OkStatus();
}

Status ShowFile(const CaShowOptions& options) {
  RIVULET_ASSIGN_OR_RETURN(const std::string pem, FileSystem::Default().ReadAll(options.path));
  if (pem.find("CERTIFICATE REQUEST-----") != std::string::npos) {
    RIVULET_ASSIGN_OR_RETURN(const CertificateRequest request, ReadRequest(pem, options.path));
    PrintFields({{"kind", std::string("request")},
                 {"name", request.name ? TextCell(request.name->ToString()) : Cell()},
                 {"key", KeyText(request.public_key.get())}},
                options.json);
    return absl::OkStatus();
  }
  RIVULET_ASSIGN_OR_RETURN(const Certificate certificate, ReadCertificate(pem, options.path));
  PrintFields(CertificateFields(certificate), options.json);
  return absl::OkStatus();
}

Status ShowCertificates(const CaShowOptions& options) {
  FileSystem& fs = FileSystem::Default();
  if (fs.Exists(JoinPath(options.path, kNodeCertificate))) return ShowNode(options);
  std::error_code error;
  if (std::filesystem::is_directory(options.path, error)) return ShowAuthority(options);
  return ShowFile(options);
}

}  // namespace

Command CaListCommand() {
  auto options = std::make_shared<CaListOptions>();
  Command command{
      .name = "list", .summary = "List an authority's valid certificates.", .example = "rivulet ca list --all"};
  AddAuthorityFolder(command, &options->folder);
  command.Flag("--all", &options->all, "list expired and revoked certificates too")
      .Flag("--json", &options->json, "print one JSON object per line");
  command.run = [options] { return ListCertificates(*options); };
  return command;
}

Command CaShowCommand() {
  auto options = std::make_shared<CaShowOptions>();
  Command command{.name = "show",
                  .summary = "Print the owner of a kit, a certificate, a request or an authority, and check a kit.",
                  .example = "rivulet ca show client-hospital-a"};
  command.Positional("PATH", &options->path, "a site's or an authority's folder, a .crt or a .csr file")
      .Flag("--json", &options->json, "print one JSON object");
  command.run = [options] { return ShowCertificates(*options); };
  return command;
}

}  // namespace rivulet
