// Files of a site: it proves its identity with `node.key` and `node.crt`, and verifies peers with `authority.crt` and
// `revoked.crl`. A start-up kit also has `site.conf`, with the settings that the site chooses, and `start`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "certificates/name.h"
#include "certificates/private_files.h"

namespace rivulet {

inline constexpr std::string_view kNodeKey = "node.key", kNodeCertificate = "node.crt", kNodeRequest = "node.csr",
                                  kAuthorityCertificate = "authority.crt", kRevokedList = "revoked.crl",
                                  kSiteConfiguration = "site.conf", kStartScript = "start";

struct NodeFiles {
  std::string key;  // "": it was made at the site and stays there
  std::string certificate, authority, revoked;
};
std::vector<DeliveredFile> FilesOfNode(const NodeFiles& node);

// Initial content of `site.conf`; the site may change all of it.
struct SiteConfiguration {
  std::string coordinator;  // HOST:PORT, of a client or an aggregator
  std::string data;         // NAME=GLOB, of a client
  std::string scenario;     // a file, of a coordinator
  std::string listen;       // HOST:PORT, of a coordinator or an aggregator
};
// UNIMPLEMENTED: no program starts with this role. INVALID_ARGUMENT: a value with characters that are not printable.
StatusOr<std::vector<DeliveredFile>> FilesOfKit(const CertificateName& name, const NodeFiles& node,
                                                const SiteConfiguration& configuration);

// `text` in double quotes, in a form that both /bin/sh and systemd's EnvironmentFile= read.
std::string Quoted(std::string_view text);

}  // namespace rivulet
