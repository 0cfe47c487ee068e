#!/usr/bin/env bash
# Writes a small C project: FOLDER, number of FILES, number of FUNCTIONS in each. The same arguments give the same project.
set -euo pipefail
folder=$1
files=$2
functions=$3
mkdir -p "$folder"

# One file: functions that loop, branch and call each other, so that the optimiser has something to do.
write_file() {
    local file=$1 function
    printf '#include "project.h"\n\n'
    printf 'static struct entry table_%d[64];\n' "$file"
    for ((function = 0; function < functions; function++)); do
        cat <<END

long work_${file}_${function}(long input, const char *text)
{
    long sum = input + $((file * 31 + function * 7));
    size_t length = strlen(text);
    for (size_t index = 0; index < length; index++) {
        struct entry *entry = &table_${file}[(sum + text[index]) & 63];
        switch ((text[index] + $function) % 7) {
        case 0: sum += entry->count++ * $((function + 3)); break;
        case 1: sum ^= (long)index << $((function % 13)); break;
        case 2: entry->weight += sum / $((file + 2)).0; break;
        case 3: sum -= snprintf(entry->name, sizeof(entry->name), "%ld-%s", sum, text); break;
        case 4: memmove(entry->name + 1, entry->name, sizeof(entry->name) - 1); break;
        default: sum = sum * $((function * 2 + 5)) + (long)entry->weight; break;
        }
    }
END
        if ((function > 0)); then
            printf '    return sum > 100 ? work_%d_%d(sum / 2, text + (length > 0)) : sum;\n}\n' "$file" $((function - 1))
        else
            printf '    return sum;\n}\n'
        fi
    done
}

{
    printf '#pragma once\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <math.h>\n#include <signal.h>\n'
    printf '#include <pthread.h>\n#include <sys/socket.h>\n#include <sys/stat.h>\n#include <netinet/in.h>\n\n'
    printf 'struct entry {\n    char name[48];\n    long count;\n    double weight;\n};\n\n'
    for ((file = 0; file < files; file++)); do
        for ((function = 0; function < functions; function++)); do
            printf 'long work_%d_%d(long input, const char *text);\n' "$file" "$function"
        done
    done
} >"$folder/project.h"

for ((file = 0; file < files; file++)); do
    write_file "$file" >"$folder/file_$file.c"
done

{
    printf '#include "project.h"\n\nint main(int argc, char **argv)\n{\n    long sum = argc;\n'
    for ((file = 0; file < files; file++)); do
        printf '    sum += work_%d_%d(sum, argv[0]);\n' "$file" $((functions - 1))
    done
    printf '    printf("%%ld\\n", sum);\n    return 0;\n}\n'
} >"$folder/main.c"

cat >"$folder/Makefile" <<'END'
OBJECTS := $(patsubst %.c,%.o,$(wildcard *.c))
CFLAGS := -O2 -Wall

project: $(OBJECTS)
	$(CC) -o $@ $^

$(OBJECTS): project.h

clean:
	rm -f project $(OBJECTS)
END
