/* streamnb-filter does the same as `streamnb filter`, by a request to a running `streamnb serve`.

A mail server may start it for each message, so it loads only the C library. It runs `streamnb
filter` from the same folder if an option is unknown, or if the server is missing, fails or hangs.
streamnb/mailbox/service/protocol.py describes the protocol, passthrough.py the copy of a message. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum {
    MAX_MESSAGE = 1 << 26,  /* maximum bytes of a message to classify */
    INITIAL_SIZE = 1 << 16, /* initial bytes of memory */
    LINE = 1 << 16,         /* bytes of a line to check at a time */
    REPLY = 4096,           /* bytes of a reply; its first lines are enough */
    TIMEOUT_MS = 2000,      /* milliseconds for the whole exchange with the server, */
    BYTES_PER_MS = 8192,    /* and one more millisecond for so many bytes */
    TRY_AGAIN = 75          /* EX_TEMPFAIL: the message must be kept */
};

/* The part of standard input that was read and not yet written. */
static struct {
    char *bytes;
    size_t at, end, room;
} input;

static char **arguments;
static int strict; /* any error gives exit status 75 */

static void give_up(void)
{
    fprintf(stderr, "streamnb-filter: the message was not passed on: %s\n", strerror(errno));
    _exit(TRY_AGAIN);
}

/* Read more of standard input; return whether there was more. */
static int read_more(void)
{
    ssize_t got;
    if (input.at == input.end)
        input.at = input.end = 0;
    if (input.at == 0 && input.end == input.room && input.room < MAX_MESSAGE) {
        input.room = input.room ? 2 * input.room : INITIAL_SIZE;
        if ((input.bytes = realloc(input.bytes, input.room)) == NULL)
            give_up();
    }
    if (input.at > 0 && input.end == input.room) {
        memmove(input.bytes, input.bytes + input.at, input.end - input.at);
        input.end -= input.at;
        input.at = 0;
    }
    do
        got = read(0, input.bytes + input.end, input.room - input.end);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        give_up();
    input.end += (size_t)got;
    return got > 0;
}

static void put(FILE *to, const char *bytes, size_t size)
{
    if (fwrite(bytes, 1, size, to) != size)
        give_up();
}

static void copy_rest(FILE *to)
{
    do {
        put(to, input.bytes + input.at, input.end - input.at);
        input.at = input.end;
    } while (read_more());
    if (fflush(to) != 0)
        give_up();
}

static void copy_message(const char *field);

/* Run `streamnb filter` with the whole message on standard input. */
static void run_streamnb_filter(void)
{
    char path[PATH_MAX + 16];
    ssize_t size = readlink("/proc/self/exe", path, PATH_MAX);
    char *name = "streamnb";

    if (input.bytes != NULL) { /* a part of the message was read */
        FILE *copy = NULL;
#ifdef __linux__
        int memory = memfd_create("message", 0);
        if (memory >= 0)
            copy = fdopen(memory, "w");
#endif
        if (copy == NULL && (copy = tmpfile()) == NULL)
            give_up();
        copy_rest(copy);
        if (lseek(fileno(copy), 0, SEEK_SET) < 0 || dup2(fileno(copy), 0) < 0)
            give_up();
    }
    arguments[0] = name;
    if (size > 0) {
        path[size] = '\0';
        strcpy(strrchr(path, '/') + 1, name);
        execv(path, arguments);
    }
    execvp(name, arguments);
    fprintf(stderr, "streamnb-filter: %s: streamnb: %s\n",
            strict ? "no verdict; exit status 75 asks for a retry" : "passed on unmarked",
            strerror(errno));
    copy_message(NULL);
    _exit(strict ? TRY_AGAIN : 0);
}

static int remaining_ms(const struct timespec *begun)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return TIMEOUT_MS + (int)(input.end / BYTES_PER_MS) - (int)((now.tv_sec - begun->tv_sec) * 1000) -
           (int)((now.tv_nsec - begun->tv_nsec) / 1000000);
}

/* Send or receive bytes within the timeout; return 0 at the end of a reply, -1 after an error. */
static ssize_t exchange(int with, char *bytes, size_t size, short what, const struct timespec *begun)
{
    struct pollfd ready = {with, what, 0};
    int milliseconds = remaining_ms(begun);
    if (milliseconds <= 0 || poll(&ready, 1, milliseconds) <= 0)
        return -1;
    if (what == POLLOUT)
        return send(with, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    return recv(with, bytes, size, MSG_DONTWAIT);
}

static int send_all(int to, char *bytes, size_t size, const struct timespec *begun)
{
    while (size > 0) {
        ssize_t sent = exchange(to, bytes, size, POLLOUT, begun);
        if (sent < 0)
            return 0;
        bytes += sent;
        size -= (size_t)sent;
    }
    return 1;
}

/* Set the paths of the database and of the socket; return 0 if they cannot be found. */
static int find_paths(const char *db, const char *user, char *database, char *socket_path)
{
    const char *named = getenv("STREAMNB_SOCKET");
    const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    const char *users = getenv("STREAMNB_USERS");
    char folder[PATH_MAX], real[PATH_MAX];

    if (data != NULL && data[0] == '/')
        snprintf(folder, sizeof folder, "%s/streamnb", data);
    else if (home != NULL && home[0] == '/')
        snprintf(folder, sizeof folder, "%s/.local/share/streamnb", home);
    else
        folder[0] = '\0';
    if (user != NULL) {
        if (users == NULL || *users == '\0') {
            if (strlen(folder) + 8 > sizeof folder)
                return 0;
            users = strcat(folder, "/users");
        }
        if (snprintf(database, PATH_MAX, "%s/%s.db", users, user) >= PATH_MAX)
            return 0;
    } else {
        if (db == NULL)
            db = getenv("STREAMNB_DB");
        if (db != NULL && *db != '\0')
            snprintf(database, PATH_MAX, "%s", db);
        else if (snprintf(database, PATH_MAX, "%s/mail.db", folder) >= PATH_MAX)
            return 0;
    }
    if (named != NULL && *named != '\0')
        return snprintf(socket_path, PATH_MAX, "%s", named) < PATH_MAX;
    if (realpath(user == NULL ? database : users, real) == NULL)
        return 0;
    return snprintf(socket_path, PATH_MAX, "%s%s", real, user == NULL ? ".sock" : "/streamnb.sock") <
           PATH_MAX;
}

/* Set the user id of the process at the other end; return 0 on success. */
static int peer_uid(int connection, uid_t *user)
{
#ifdef __linux__
    struct ucred peer;
    socklen_t size = sizeof peer;
    int failed = getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size);
    *user = peer.uid;
    return failed;
#else
    gid_t group;
    return getpeereid(connection, user, &group);
#endif
}

/* Return a connection to a server of this user or of root, -1 without one. */
static int connect_to_server(const char *socket_path)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    struct timeval patience = {TIMEOUT_MS / 1000, 0};
    uid_t peer;
    int to = socket(AF_UNIX, SOCK_STREAM, 0);

    if (to < 0 || strlen(socket_path) >= sizeof name.sun_path)
        return -1;
    strcpy(name.sun_path, socket_path);
    setsockopt(to, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    if (connect(to, (struct sockaddr *)&name, sizeof name) != 0 ||
        peer_uid(to, &peer) != 0 || (peer != getuid() && peer != 0)) {
        close(to);
        return -1;
    }
    return to;
}

/* Request a verdict; return the header field, which is in `reply`, or NULL after an error. */
static char *request_verdict(int server, const struct stat *database, const char *user, int learn,
                   char *reply, const struct timespec *begun)
{
    char request[1024];
    size_t got = 0;
    char *field, *end;
    int size = snprintf(request, sizeof request, "streamnb/1 file=%llu:%llu size=%zu record=1%s%s%s\n",
                        (unsigned long long)database->st_dev, (unsigned long long)database->st_ino,
                        input.end, learn ? " learn=1" : "", user ? " user=" : "",
                        user ? user : "");

    if (size < 0 || size >= (int)sizeof request ||
        !send_all(server, request, (size_t)size, begun) ||
        !send_all(server, input.bytes, input.end, begun))
        return NULL;
    while (got < REPLY - 1) {
        ssize_t more = exchange(server, reply + got, REPLY - 1 - got, POLLIN, begun);
        if (more < 0)
            return NULL;
        if (more == 0)
            break;
        got += (size_t)more;
    }
    reply[got] = '\0';
    if (strncmp(reply, "ok\nX-Streamnb: ", 15) != 0)
        return NULL;
    field = reply + 3;
    end = strchr(field, '\n');
    if (end == NULL)
        return NULL;
    *end = '\0';
    return field;
}

/* Return the end of the next line, or of its first LINE bytes. */
static size_t line_end(void)
{
    char *end;
    size_t at, size = input.end - input.at;
    while (size < LINE && (size == 0 || memchr(input.bytes + input.at, '\n', size) == NULL)) {
        if (!read_more())
            break;
        size = input.end - input.at;
    }
    if (size > LINE)
        size = LINE;
    end = size > 0 ? memchr(input.bytes + input.at, '\n', size) : NULL;
    size = end != NULL ? (size_t)(end - input.bytes) + 1 : input.at + size;
    /* A bare CR ends a line, too: some programs read it so, and a forged field can follow it. */
    for (at = input.at; at < size && (end = memchr(input.bytes + at, '\r', size - at)) != NULL;) {
        for (at = (size_t)(end - input.bytes); at < size && input.bytes[at] == '\r';)
            at++;
        if (at < size && input.bytes[at] != '\n') /* CRs before an LF are part of the line end */
            return at;
    }
    if (size == input.at + LINE) { /* the next byte decides whether CRs are part of a line end */
        for (at = size; at > input.at && input.bytes[at - 1] == '\r';)
            at--;
        if (at > input.at)
            size = at;
    }
    return size;
}

static int is_ours(const char *line, size_t size)
{
    static const char name[] = "x-streamnb";
    size_t i = sizeof name - 1;
    for (;;) { /* NULs and byte order marks that some programs write */
        size_t skipped = size > 0 && *line == '\0' ? 1 : size > 2 && memcmp(line, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
        if (skipped == 0)
            break;
        line += skipped;
        size -= skipped;
    }
    if (size < i || strncasecmp(line, name, i) != 0)
        return 0;
    while (i < size && (line[i] == ' ' || line[i] == '\t'))
        i++;
    /* The name ends at a colon, or at blanks up to the end of the checked bytes. */
    return i < size ? line[i] == ':' : i > sizeof name - 1;
}

/* Copy the header with the field first (NULL: no field) and without forged ones, then the rest. */
static void copy_message(const char *field)
{
    int placed = field == NULL, ours = 0, first = 1;
    char before = '\n', written = '\n'; /* the last byte read, and the last byte written */
    const char *ending = "\n";
    size_t looked = input.end < LINE ? input.end : LINE;
    char *newline = looked > 0 ? memchr(input.bytes, '\n', looked) : NULL;

    if (newline != NULL && newline > input.bytes && newline[-1] == '\r')
        ending = "\r\n";
    for (;;) {
        size_t end = line_end();
        const char *line = input.bytes + input.at;
        size_t size = end - input.at;
        if (size == 0)
            break;
        if (before == '\n' || before == '\r') {
            size_t ends = 0;
            int cut_run = before == '\r' && line[0] == '\r'; /* a run of CRs in two pieces */
            int empty, continues = cut_run || line[0] == ' ' || line[0] == '\t';
            while (ends < size && line[ends] == '\r')
                ends++;
            empty = !cut_run && ends + 1 == size && line[ends] == '\n';
            /* An mbox separator stays first. So do lines that would continue the added field. */
            if (!placed && before == '\n' && !continues && !(first && size >= 5 && memcmp(line, "From ", 5) == 0)) {
                put(stdout, field, strlen(field));
                put(stdout, ending, strlen(ending));
                placed = 1;
            }
            if (empty)
                break;
            if (!continues)
                ours = is_ours(line, size);
            first = 0;
        }
        before = line[size - 1];
        if (!ours) {
            put(stdout, line, size);
            written = before;
        } else if (before == '\n' && written != '\n') { /* keep the end of the preceding line */
            put(stdout, "\n", 1);
            written = '\n';
        }
        input.at = end;
    }
    if (!placed) { /* the message has no line before which the field can be added */
        if (written != '\n')
            put(stdout, ending, strlen(ending));
        put(stdout, field, strlen(field));
        put(stdout, ending, strlen(ending));
    }
    copy_rest(stdout);
}

int main(int count, char **argv)
{
    const char *db = NULL, *user = NULL;
    char database[PATH_MAX], socket_path[PATH_MAX], reply[REPLY];
    char *field = NULL;
    int learn = 0, plain = 1, server;
    struct stat status = {0}; /* 0:0 for the server's own database, without access */
    struct timespec begun;

    arguments = calloc((size_t)count + 2, sizeof *arguments);
    if (arguments == NULL)
        give_up();
    arguments[1] = "filter";
    for (int i = 1; i < count; i++) {
        arguments[i + 1] = argv[i];
        if (strcmp(argv[i], "-u") == 0 || strcmp(argv[i], "--update") == 0)
            learn = 1;
        else if (strcmp(argv[i], "--db") == 0 && i + 1 < count)
            arguments[i + 2] = argv[i + 1], db = argv[++i];
        else if (strcmp(argv[i], "--user") == 0 && i + 1 < count)
            arguments[i + 2] = argv[i + 1], user = argv[++i];
        else if (strcmp(argv[i], "--strict") == 0)
            strict = 1;
        else
            plain = 0;
    }
    signal(SIGPIPE, SIG_IGN);
    for (int fd = 0; fd < 3; fd++) { /* the next opened file must not get the number of a closed one */
        int flags = fcntl(fd, F_GETFL);
        if (flags < 0 && (fd < 2 || open("/dev/null", O_WRONLY) != fd))
            give_up();
        if (fd < 2 && (flags & O_NONBLOCK)) /* a read without data must not look like the end */
            fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
    }
    if (fstat(0, &status) == 0 && S_ISDIR(status.st_mode)) { /* Python would not start */
        errno = EISDIR;
        give_up();
    }
    memset(&status, 0, sizeof status);
    if (user != NULL && (*user == '\0' || *user == '.' || *user == '-' || strlen(user) > 200 ||
                         strspn(user, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                      "0123456789._@+-") != strlen(user)))
        plain = 0;
    if (!plain || (db != NULL && user != NULL) || !find_paths(db, user, database, socket_path) ||
        (stat(database, &status) != 0 && errno != EACCES) || (server = connect_to_server(socket_path)) < 0)
        run_streamnb_filter();
    while (input.end < MAX_MESSAGE && read_more())
        ;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    field = request_verdict(server, &status, user, learn, reply, &begun);
    close(server);
    if (field == NULL) {
        setenv("STREAMNB_UNSERVED", "1", 1); /* the server did not answer in time */
        run_streamnb_filter();
    }
    copy_message(field);
    return 0;
}
