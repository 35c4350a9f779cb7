# Report each message that a user moves or copies to another folder (IMAPSieve).
require ["vnd.dovecot.pipe", "vnd.dovecot.imapsieve", "copy", "imapsieve", "environment",
         "variables"];
if environment :matches "imap.user" "*" { set "user" "${1}"; }
if environment :matches "imap.mailbox" "*" { set "mailbox" "${1}"; }
if environment :matches "vnd.dovecot.mailbox-from" "*" { set "from" "${1}"; }
pipe :copy "streamnb-learn" ["${user}", "${mailbox}", "${from}"];
