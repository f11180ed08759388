#include "certificates/kit.h"

#include "engine/base/display_name.h"

namespace rivulet {
namespace {

// Runs the program with the settings of site.conf. A kit fits the command line of the version that makes it.
constexpr std::string_view kStart = R"sh(#!/bin/sh
# Starts {what} of this kit. Options that stand here are added to those of site.conf.
set -eu
cd -- "$(dirname -- "$0")"
set -a  # what stands there is for the program too: https_proxy
. ./site.conf
set +a
{before}# shellcheck disable=SC2086 # RIVULET_OPTIONS are words
exec "${{RIVULET:-rivulet}}" {command} $RIVULET_OPTIONS "$@"
)sh";

// Reports a fault of the certificate at the start, when the user can still ask for another.
constexpr std::string_view kShow = R"sh("${RIVULET:-rivulet}" ca show . >&2
)sh";

// The client-only program goes first: it is smaller and has no other command. It warns when its certificate
// ends.
constexpr std::string_view kClientFirst = R"sh(if [ -z "${{RIVULET:-}}" ] && command -v rivulet-client >/dev/null; then
  # shellcheck disable=SC2086 # RIVULET_OPTIONS are words
  exec rivulet-client {options} $RIVULET_OPTIONS "$@"
fi
)sh";

// The system restarts a service, which then resumes its run.
constexpr std::string_view kResume =
    R"sh(# A run in the history is resumed; to start another run of the scenario, move the history away.
resume=
if "${RIVULET:-rivulet}" runs show latest --db "$RIVULET_DB" >/dev/null 2>&1; then resume='--resume latest'; fi
)sh";

std::string Setting(std::string_view comment, std::string_view key, std::string_view value) {
  return fmt::format("# {}\n{}={}\n", comment, key, Quoted(value));
}

}  // namespace

std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\' || c == '$' || c == '`') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

std::vector<DeliveredFile> FilesOfNode(const NodeFiles& node) {
  std::vector<DeliveredFile> files = {{.name = std::string(kNodeCertificate), .bytes = node.certificate},
                                      {.name = std::string(kAuthorityCertificate), .bytes = node.authority},
                                      {.name = std::string(kRevokedList), .bytes = node.revoked}};
  if (!node.key.empty()) files.push_back({.name = std::string(kNodeKey), .bytes = node.key});
  return files;
}

StatusOr<std::vector<DeliveredFile>> FilesOfKit(const CertificateName& name, const NodeFiles& node,
                                                const SiteConfiguration& configuration) {
  for (const std::string* value :
       {&configuration.coordinator, &configuration.data, &configuration.scenario, &configuration.listen}) {
    if (!value->empty()) RIVULET_RETURN_IF_ERROR(CheckDisplayName("a value of the kit's configuration", *value));
  }
  std::string site = "# This site's settings. Read by ./start, and as an EnvironmentFile by systemd.\n";
  std::string what, before, command;
  if (name.role == Role::kClient) {
    what = "the client";
    constexpr std::string_view kOptions = R"(--coordinator "$RIVULET_COORDINATOR" --tls . --data "$RIVULET_DATA")";
    before = fmt::format(fmt::runtime(kClientFirst), fmt::arg("options", kOptions)) + std::string(kShow);
    command = fmt::format("client {}", kOptions);
    site += Setting("Where the coordinator listens.", "RIVULET_COORDINATOR", configuration.coordinator);
    site += Setting("The records to train on, by the name that plans use; relative to this folder.", "RIVULET_DATA",
                    configuration.data);
  } else if (name.role == Role::kAggregator) {
    what = "the aggregator";
    before = kShow;
    command = R"(aggregator --parent "$RIVULET_PARENT" --listen "$RIVULET_LISTEN" --tls .)";
    site += Setting("Where the coordinator listens, or the aggregator above this one.", "RIVULET_PARENT",
                    configuration.coordinator);
    site += Setting("Where clients reach it.", "RIVULET_LISTEN", configuration.listen);
  } else if (name.role == Role::kCoordinator) {
    what = "the coordinator";
    before = std::string(kShow) + std::string(kResume);
    command =
        R"(coordinator ${RIVULET_SCENARIO:+"$RIVULET_SCENARIO"} --listen "$RIVULET_LISTEN" --tls . --db "$RIVULET_DB" $resume)";
    site += Setting("The scenario to run, relative to this folder. Empty: run the scenarios that operators submit.",
                    "RIVULET_SCENARIO", configuration.scenario);
    site += Setting("Where clients reach it.", "RIVULET_LISTEN", configuration.listen);
    site += Setting("The history; models are beside it.", "RIVULET_DB", "rivulet.sqlite");
  } else {
    return Unimplemented(
        "there is no start-up kit for {}, since no program starts with one; 'rivulet ca issue {}' makes its "
        "certificate",
        name.role->text, name.ToString());
  }
  site += Setting("Further options of the program.", "RIVULET_OPTIONS", "");
  std::vector<DeliveredFile> files = FilesOfNode(node);
  files.push_back({.name = std::string(kSiteConfiguration), .bytes = std::move(site)});
  files.push_back({.name = std::string(kStartScript),
                   .bytes = fmt::format(fmt::runtime(kStart), fmt::arg("what", what), fmt::arg("before", before),
                                        fmt::arg("command", command)),
                   .executable = true});
  return files;
}

}  // namespace rivulet
