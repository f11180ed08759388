// Identity of a node: its certificate and key for handshakes, and the authority by which it verifies peers. It is read
// from the node's folder (kit.h) and checked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "certificates/certificate.h"
#include "certificates/revocation_list.h"
#include "certificates/revocation_record.h"
#include "certificates/verify.h"
#include "engine/base/clock.h"
#include "engine/base/file_system.h"

namespace rivulet {

struct NodeIdentity {
  CertificateName name;
  std::vector<std::string> hosts;
  std::string serial;
  Validity validity;
  // In PEM, as TLS libraries take them.
  std::string certificate_pem, key_pem, authority_pem;
  // Verify a peer's certificate (VerifyCertificate); `revoked` is nullopt if the folder has no list.
  Certificate authority;
  std::optional<RevocationList> revoked;
  std::string revoked_pem = {};  // of `revoked`, to be passed on; "": the folder's list is not in force
};

// Reads `folder` and checks it at the time of `clock`: the key is private and the certificate's; the certificate is the
// authority's, valid, not revoked, and fit for its role. With `record`, an older list than the record's is not used
// (revocation_record.h); without it, the folder's list is. NOT_FOUND, INVALID_ARGUMENT, FAILED_PRECONDITION: the file,
// its fault, and the remedy.
StatusOr<NodeIdentity> LoadIdentity(FileSystem& fs, const Clock& clock, const std::string& folder,
                                    RevocationRecord* record = nullptr);

// "12 days left: renew the certificate of 'client/a' soon" from 30 days before it ends; "" before.
std::string ExpiryWarning(const NodeIdentity& identity, int64_t now);
// A warning that the revocation list's next update is overdue; "": it is not. The list stays in force.
std::string ListExpiryWarning(const NodeIdentity& identity, int64_t now);

// The certificate `pem` of a handshake's peer, verified for the peer's `purpose`. Errors as VerifyCertificate; their
// messages may be sent to the peer.
StatusOr<Certificate> VerifyPeer(std::string_view pem, const NodeIdentity& identity, CertificatePurpose purpose,
                                 int64_t now);

}  // namespace rivulet
