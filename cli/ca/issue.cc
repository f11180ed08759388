// rivulet ca issue, kit: a site's first certificate and files.
#include "certificates/key.h"
#include "certificates/kit.h"
#include "cli/ca/commands.h"
#include "rpc/credentials.h"

namespace rivulet {
namespace {

// ca issue, ca kit

struct CaIssueOptions {
  std::string folder = kAuthorityFolder, name, request, out;
  std::vector<std::string> hosts;
  std::optional<int64_t> days;
  // Options for a kit alone.
  std::string coordinator, data, scenario, listen;
};

// A coordinator's id is a host at which clients reach it; others are additional.
Subject SubjectOf(const CertificateName& name, const std::vector<std::string>& hosts) {
  Subject subject{.name = name};
  if (name.role == Role::kCoordinator) subject.hosts.push_back(name.id);
  subject.hosts.insert(subject.hosts.end(), hosts.begin(), hosts.end());
  return subject;
}

// Signs and delivers the result of `files` for the certificate and, if it was made here, the key.
Status IssueTo(const CaIssueOptions& options, const Subject& subject, Delivery& delivery,
               const std::function<std::vector<DeliveredFile>(const NodeFiles&)>& files) {
  FileSystem& fs = FileSystem::Default();
  RIVULET_ASSIGN_OR_RETURN(const auto authority, Authority::OpenToSign(fs, Clock::System(), options.folder));
  KeyHandle key;
  NodeFiles node{.authority = authority->certificate().Pem(), .revoked = authority->revocation_list()};
  if (options.request.empty()) {
    RIVULET_ASSIGN_OR_RETURN(key, MakeKey());
    RIVULET_ASSIGN_OR_RETURN(node.key, KeyPem(key.get()));
  } else {
    RIVULET_ASSIGN_OR_RETURN(key, RequestedKey(fs, options.request, subject.name));
  }
  RIVULET_ASSIGN_OR_RETURN(const IndexRow row, authority->Issue({.subject = subject,
                                                                 .days = options.days,
                                                                 .public_key = key.get(),
                                                                 .files =
                                                                     [&](const Certificate& certificate) {
                                                                       node.certificate = certificate.Pem();
                                                                       return files(node);
                                                                     }},
                                                                delivery));
  PrintSigned(row);
  return absl::OkStatus();
}

Status IssueCertificate(const CaIssueOptions& options) {
  RIVULET_ASSIGN_OR_RETURN(const CertificateName name, NameArgument(options.name));
  const Subject subject = SubjectOf(name, options.hosts);
  RIVULET_RETURN_IF_ERROR(AsUsageError(CheckSubject(subject)));
  // At the key's site only the certificate is needed, and it is no secret.
  const bool file = !options.request.empty();
  Delivery delivery(FileSystem::Default(), !options.out.empty() ? options.out : name.FileName() + (file ? ".crt" : ""),
                    file ? Delivery::Form::kFile : Delivery::Form::kFolder);
  RIVULET_RETURN_IF_ERROR(IssueTo(options, subject, delivery, [&](const NodeFiles& node) {
    return file ? std::vector<DeliveredFile>{{.bytes = node.certificate}} : FilesOfNode(node);
  }));
  if (file) {
    fmt::print("{}: send it to the site, with {}\n", delivery.path(), JoinPath(options.folder, kAuthorityCertificate));
  } else {
    fmt::print("{}: its key, its certificate and the authority's; transfer it by a channel that you trust\n",
               delivery.path());
  }
  return absl::OkStatus();
}

Status CheckKitOptions(const CaIssueOptions& options, Role role) {
  const auto only = [&](std::string_view flag, const std::string& value, Role whose, Role or_whose) -> Status {
    if (value.empty() || role == whose || role == or_whose) return absl::OkStatus();
    return UsageError("{} is for the kit of {}{}, not of {}", flag, whose->text,
                      whose == or_whose ? "" : fmt::format(" or {}", or_whose->text), role->text);
  };
  RIVULET_RETURN_IF_ERROR(only("--coordinator", options.coordinator, Role::kClient, Role::kAggregator));
  RIVULET_RETURN_IF_ERROR(only("--data", options.data, Role::kClient, Role::kClient));
  RIVULET_RETURN_IF_ERROR(only("--scenario", options.scenario, Role::kCoordinator, Role::kCoordinator));
  RIVULET_RETURN_IF_ERROR(only("--listen", options.listen, Role::kCoordinator, Role::kAggregator));
  if ((role == Role::kClient || role == Role::kAggregator) && options.coordinator.empty())
    return UsageError("the kit of {} needs its coordinator's address; give --coordinator HOST:PORT", role->text);
  for (const std::string* address : {&options.coordinator, &options.listen})
    if (!address->empty()) RIVULET_RETURN_IF_ERROR(AsUsageError(ParseAddress(*address).status()));
  return absl::OkStatus();
}

Status PackKit(const CaIssueOptions& options) {
  RIVULET_ASSIGN_OR_RETURN(const CertificateName name, NameArgument(options.name));
  RIVULET_RETURN_IF_ERROR(CheckKitOptions(options, name.role));
  const Subject subject = SubjectOf(name, options.hosts);
  RIVULET_RETURN_IF_ERROR(AsUsageError(CheckSubject(subject)));
  const auto or_else = [](const std::string& given, const char* otherwise) {
    return given.empty() ? std::string(otherwise) : given;
  };
  const SiteConfiguration configuration{.coordinator = options.coordinator,
                                        .data = or_else(options.data, "train=data/*.tfrecord"),
                                        .scenario = or_else(options.scenario, "scenario.toml"),
                                        .listen = or_else(options.listen, "0.0.0.0:7000")};
  // Checked before anything is signed.
  RIVULET_RETURN_IF_ERROR(AsUsageError(FilesOfKit(name, {}, configuration).status()));
  const std::string path = options.out.empty() ? name.FileName() + ".tar.gz" : options.out;
  Delivery delivery(FileSystem::Default(), path,
                    path.ends_with(".tar.gz") ? Delivery::Form::kArchive : Delivery::Form::kFolder);
  RIVULET_RETURN_IF_ERROR(IssueTo(options, subject, delivery, [&](const NodeFiles& node) {
    return FilesOfKit(name, node, configuration).value();
  }));
  if (options.request.empty()) {
    fmt::print("{}: the kit, with its key; transfer it by a channel that you trust\n", delivery.path());
  } else {
    fmt::print("{}: the kit, for the folder with the key\n", delivery.path());
  }
  return absl::OkStatus();
}

void AddIssueOptions(Command& command, const std::shared_ptr<CaIssueOptions>& options) {
  command.Positional("NAME", &options->name, RoleNamesHelp());
  AddAuthorityFolder(command, &options->folder);
  command
      .Repeated("--host", "HOST", &options->hosts,
                "a host by which others reach a coordinator (beside its name) or an aggregator; repeatable")
      .Option("--request", "FILE", &options->request, "the site's request, whose key stays at the site")
      .Option("--days", "N", &options->days,
              fmt::format("days of validity [{}, or as long as the authority]", kCertificateDays),
              {.min = 1, .max = kMostDays});
}

}  // namespace

Command CaIssueCommand() {
  auto options = std::make_shared<CaIssueOptions>();
  Command command{.name = "issue",
                  .summary = "Sign a certificate, with a new key in a folder or for a site's existing key.",
                  .example =
                      "rivulet ca issue operator/alice\n"
                      "  rivulet ca issue client/hospital-b --request node.csr --out hospital-b.crt"};
  AddIssueOptions(command, options);
  command.Option("--out", "PATH", &options->out,
                 "the folder, or with --request the file, to write [its name, operator-alice]");
  command.run = [options] { return IssueCertificate(*options); };
  return command;
}

Command CaKitCommand() {
  auto options = std::make_shared<CaIssueOptions>();
  Command command{
      .name = "kit",
      .summary = "Sign a certificate and pack the start-up kit of a client, an aggregator or a coordinator.",
      .example =
          "rivulet ca kit client/hospital-a --coordinator fl.example.org:7000\n"
          "  rivulet ca kit aggregator/north --host north.example.org --coordinator fl.example.org:7000\n"
          "  rivulet ca kit coordinator/fl.example.org --host 192.0.2.7 --scenario scenario.toml"};
  AddIssueOptions(command, options);
  command
      .Option("--coordinator", "HOST:PORT", &options->coordinator,
              "for a client or an aggregator: its coordinator's address")
      .Option("--data", "NAME=GLOB", &options->data, "for a client: its records [train=data/*.tfrecord]")
      .Option("--scenario", "FILE", &options->scenario, "for a coordinator: the scenario to run [scenario.toml]")
      .Option("--listen", "HOST:PORT", &options->listen,
              "for a coordinator or an aggregator: its listening address [0.0.0.0:7000]")
      .Option("--out", "PATH", &options->out,
              "the archive (.tar.gz) or folder to write [its name, client-hospital-a.tar.gz]");
  command.run = [options] { return PackKit(*options); };
  return command;
}

}  // namespace rivulet
