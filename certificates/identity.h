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
  // By which a peer's certificate is verified (VerifyCertificate); no list when the folder has none.
  Certificate authority;
  std::optional<RevocationList> revoked;
  std::string revoked_pem = {};  // of `revoked`, to be passed on; "": the folder's list is not the one in force
};

// Reads `folder` and holds all of it against each other at the time of `clock`: the key is the certificate's and
// private, the certificate is the authority's, in its days, not revoked, and made for all that its role does.
// With `record` a list that goes back behind it is not taken (revocation_record.h); without, the folder's is.
// NOT_FOUND, INVALID_ARGUMENT, FAILED_PRECONDITION: the file, what is wrong with it, and the mend.
StatusOr<NodeIdentity> LoadIdentity(FileSystem& fs, const Clock& clock, const std::string& folder,
                                    RevocationRecord* record = nullptr);

// "12 days left: renew the certificate of 'client/a' soon" from 30 days before it ends; "" before.
std::string ExpiryWarning(const NodeIdentity& identity, int64_t now);
// That the revocation list was to be replaced by another before now; "": it was not. It counts all the same.
std::string ListExpiryWarning(const NodeIdentity& identity, int64_t now);

// Who is at the other end of a handshake, whose certificate is `pem`: verified for `purpose`, which is what the peer
// does. Errors as VerifyCertificate; a message is fit for the peer too.
StatusOr<Certificate> VerifyPeer(std::string_view pem, const NodeIdentity& identity, CertificatePurpose purpose,
                                 int64_t now);

}  // namespace rivulet
