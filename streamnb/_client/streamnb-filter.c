/* streamnb-filter: what `streamnb filter` does, by asking a running `streamnb serve`.

A mail server may start it for every message, so it loads nothing but the C library. Whatever it
cannot do (options it does not know, no server, one that fails or hangs) it leaves to `streamnb
filter`, which lies beside it. The protocol is told in streamnb/mailbox/service/protocol.py, how a
message is copied in passthrough.py. */

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
    MOST = 1 << 26,  /* bytes of a message that are judged */
    FIRST = 1 << 16, /* bytes of memory at first */
    LINE = 1 << 16,  /* bytes of a line looked at together */
    REPLY = 4096,    /* of a reply: its first lines are enough */
    PATIENCE = 2000, /* milliseconds for the server, all in all, */
    RATE = 8192,     /* and one more for so many bytes */
    TRY_AGAIN = 75   /* EX_TEMPFAIL: the message must be kept */
};

/* What was read of standard input and not yet written. */
static struct {
    char *bytes;
    size_t at, end, room;
} input;

static char **arguments;
static int strict; /* any trouble gives 75 */

static void give_up(void)
{
    fprintf(stderr, "streamnb-filter: the message was not passed on: %s\n", strerror(errno));
    _exit(TRY_AGAIN);
}

/* Read more behind what is there already; whether there was more. */
static int fill(void)
{
    ssize_t got;
    if (input.at == input.end)
        input.at = input.end = 0;
    if (input.at == 0 && input.end == input.room && input.room < MOST) {
        input.room = input.room ? 2 * input.room : FIRST;
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
    } while (fill());
    if (fflush(to) != 0)
        give_up();
}

static void copy_message(const char *field);

/* Leave everything to `streamnb filter`, which gets the whole message on standard input. */
static void ask_the_other(void)
{
    char path[PATH_MAX + 16];
    ssize_t size = readlink("/proc/self/exe", path, PATH_MAX);
    char *name = "streamnb";

    if (input.bytes != NULL) { /* some of the message was read */
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

static int left(const struct timespec *begun)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return PATIENCE + (int)(input.end / RATE) - (int)((now.tv_sec - begun->tv_sec) * 1000) -
           (int)((now.tv_nsec - begun->tv_nsec) / 1000000);
}

/* Send or receive something before time is up; 0 at the end of a reply, -1 where it fails. */
static ssize_t speak(int with, char *bytes, size_t size, short what, const struct timespec *begun)
{
    struct pollfd ready = {with, what, 0};
    int milliseconds = left(begun);
    if (milliseconds <= 0 || poll(&ready, 1, milliseconds) <= 0)
        return -1;
    if (what == POLLOUT)
        return send(with, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    return recv(with, bytes, size, MSG_DONTWAIT);
}

static int send_all(int to, char *bytes, size_t size, const struct timespec *begun)
{
    while (size > 0) {
        ssize_t sent = speak(to, bytes, size, POLLOUT, begun);
        if (sent < 0)
            return 0;
        bytes += sent;
        size -= (size_t)sent;
    }
    return 1;
}

/* The path of the database and of the socket; 0 where they cannot be told here. */
static int find(const char *db, const char *user, char *database, char *where)
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
        return snprintf(where, PATH_MAX, "%s", named) < PATH_MAX;
    if (realpath(user == NULL ? database : users, real) == NULL)
        return 0;
    return snprintf(where, PATH_MAX, "%s%s", real, user == NULL ? ".sock" : "/streamnb.sock") <
           PATH_MAX;
}

/* Whose process is at the other end. */
static int peer_of(int connection, uid_t *user)
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

/* A connection to our own server, or root's; -1 where there is none. */
static int connected(const char *where)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    struct timeval patience = {PATIENCE / 1000, 0};
    uid_t peer;
    int to = socket(AF_UNIX, SOCK_STREAM, 0);

    if (to < 0 || strlen(where) >= sizeof name.sun_path)
        return -1;
    strcpy(name.sun_path, where);
    setsockopt(to, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    if (connect(to, (struct sockaddr *)&name, sizeof name) != 0 ||
        peer_of(to, &peer) != 0 || (peer != getuid() && peer != 0)) {
        close(to);
        return -1;
    }
    return to;
}

/* Ask for the header field; it is put into `reply`. NULL where there is none. */
static char *asked(int server, const struct stat *database, const char *user, int learn,
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
        ssize_t more = speak(server, reply + got, REPLY - 1 - got, POLLIN, begun);
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

/* The end of the next line, or of as much of it as is looked at together. */
static size_t line_end(void)
{
    char *end;
    size_t at, size = input.end - input.at;
    while (size < LINE && (size == 0 || memchr(input.bytes + input.at, '\n', size) == NULL)) {
        if (!fill())
            break;
        size = input.end - input.at;
    }
    if (size > LINE)
        size = LINE;
    end = size > 0 ? memchr(input.bytes + input.at, '\n', size) : NULL;
    size = end != NULL ? (size_t)(end - input.bytes) + 1 : input.at + size;
    /* A bare CR ends a line, too: some programs read it so, and a forged field could stand behind it. */
    for (at = input.at; at < size && (end = memchr(input.bytes + at, '\r', size - at)) != NULL;) {
        for (at = (size_t)(end - input.bytes); at < size && input.bytes[at] == '\r';)
            at++;
        if (at < size && input.bytes[at] != '\n') /* CRs before an LF are one line end with it */
            return at;
    }
    if (size == input.at + LINE) { /* what follows CRs at the end decides what they are */
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
    /* A colon, or blanks up to the end of what is looked at together. */
    return i < size ? line[i] == ':' : i > sizeof name - 1;
}

/* Copy the header with our field first (NULL: none) and any forged one left out, then all the rest. */
static void copy_message(const char *field)
{
    int placed = field == NULL, ours = 0, first = 1;
    char before = '\n', written = '\n'; /* the last byte of what was read, and of what was written */
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
            int cut_run = before == '\r' && line[0] == '\r'; /* CRs that were not looked at together */
            int empty, continues = cut_run || line[0] == ' ' || line[0] == '\t';
            while (ends < size && line[ends] == '\r')
                ends++;
            empty = !cut_run && ends + 1 == size && line[ends] == '\n';
            /* An mbox's separator stays first, and so do lines that would continue our field. */
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
        } else if (before == '\n' && written != '\n') { /* of a line that was begun, the end stays */
            put(stdout, "\n", 1);
            written = '\n';
        }
        input.at = end;
    }
    if (!placed) { /* there was no other line than such */
        if (written != '\n')
            put(stdout, ending, strlen(ending));
        put(stdout, field, strlen(field));
        put(stdout, ending, strlen(ending));
    }
    copy_rest(stdout);
}

int main(int count, char **given)
{
    const char *db = NULL, *user = NULL;
    char database[PATH_MAX], where[PATH_MAX], reply[REPLY];
    char *field = NULL;
    int learn = 0, plain = 1, server;
    struct stat status = {0}; /* 0:0 for the server's own, where we may not look */
    struct timespec begun;

    arguments = calloc((size_t)count + 2, sizeof *arguments);
    if (arguments == NULL)
        give_up();
    arguments[1] = "filter";
    for (int i = 1; i < count; i++) {
        arguments[i + 1] = given[i];
        if (strcmp(given[i], "-u") == 0 || strcmp(given[i], "--update") == 0)
            learn = 1;
        else if (strcmp(given[i], "--db") == 0 && i + 1 < count)
            arguments[i + 2] = given[i + 1], db = given[++i];
        else if (strcmp(given[i], "--user") == 0 && i + 1 < count)
            arguments[i + 2] = given[i + 1], user = given[++i];
        else if (strcmp(given[i], "--strict") == 0)
            strict = 1;
        else
            plain = 0;
    }
    signal(SIGPIPE, SIG_IGN);
    for (int fd = 0; fd < 3; fd++) { /* else what is opened next would take its place */
        int flags = fcntl(fd, F_GETFL);
        if (flags < 0 && (fd < 2 || open("/dev/null", O_WRONLY) != fd))
            give_up();
        if (fd < 2 && (flags & O_NONBLOCK)) /* what cannot be read just now is not the end */
            fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
    }
    if (fstat(0, &status) == 0 && S_ISDIR(status.st_mode)) { /* Python would not even start */
        errno = EISDIR;
        give_up();
    }
    memset(&status, 0, sizeof status);
    if (user != NULL && (*user == '\0' || *user == '.' || *user == '-' || strlen(user) > 200 ||
                         strspn(user, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                      "0123456789._@+-") != strlen(user)))
        plain = 0;
    if (!plain || (db != NULL && user != NULL) || !find(db, user, database, where) ||
        (stat(database, &status) != 0 && errno != EACCES) || (server = connected(where)) < 0)
        ask_the_other();
    while (input.end < MOST && fill())
        ;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    field = asked(server, &status, user, learn, reply, &begun);
    close(server);
    if (field == NULL) {
        setenv("STREAMNB_UNSERVED", "1", 1); /* it has been asked, and waited for */
        ask_the_other();
    }
    copy_message(field);
    return 0;
}
