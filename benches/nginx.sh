#!/usr/bin/env bash
# Finds an nginx to compare with, and writes its configuration. Sourced by run.sh.

# Prints the path of an nginx that runs: the one on PATH, or one unpacked from the distribution's
# package into the user's cache, which needs no root.
nginx_find() {
  local cache=${XDG_CACHE_HOME:-$HOME/.cache}/toolgate/nginx
  local found
  if found=$(PATH=$PATH:/usr/sbin:/usr/local/sbin command -v nginx); then
    echo "$found"
    return 0
  fi
  if [[ ! -x $cache/run ]]; then
    nginx_fetch "$cache" >&2 || return 1
  fi
  "$cache/run" -v 2>/dev/null || return 1
  echo "$cache/run"
}

# nginx_fetch FOLDER: unpacks nginx and its regular-expression library there.
nginx_fetch() {
  local folder=$1 next=$1.next package
  if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
    echo "nginx is not installed, and there is no apt-get to fetch it with"
    return 1
  fi
  echo "benches/nginx.sh: fetching nginx"
  rm -rf "$next"
  mkdir -p "$next/root" "$next/packages"
  (cd "$next/packages" && apt_download) || return 1
  for package in "$next"/packages/*.deb; do
    dpkg-deb -x "$package" "$next/root" || return 1
  done
  cat >"$next/run" <<'RUN'
#!/bin/sh
root=$(dirname "$0")/root
LD_LIBRARY_PATH=$(echo "$root"/usr/lib/*-linux-gnu*) exec "$root/usr/sbin/nginx" "$@"
RUN
  chmod +x "$next/run"
  "$next/run" -v || return 1
  rm -rf "$folder" "$next/packages"
  mv "$next" "$folder"
}

# Downloads into the current folder. On a machine whose package lists are missing they are fetched
# first, into the current folder too, since the system's are root's.
apt_download() {
  local packages=(nginx libpcre2-8-0)
  local quiet=(-qq -o APT::Sandbox::User="$(id -un)")
  if apt-get "${quiet[@]}" download "${packages[@]}"; then return 0; fi
  mkdir -p lists/partial cache/archives/partial
  local own=(-o "Dir::State::Lists=$PWD/lists" -o "Dir::Cache=$PWD/cache")
  apt-get "${quiet[@]}" "${own[@]}" update && apt-get "${quiet[@]}" "${own[@]}" download "${packages[@]}"
}

# nginx_config KIND LISTEN UPSTREAM: prints the configuration of a streaming reverse proxy, either
# `plain`, with just what forwards requests, which opens a connection to the upstream for each of
# them, or `tuned`, which keeps connections on both sides open. Relative paths are below the prefix.
nginx_config() {
  local kind=$1 listen=$2 upstream=$3 user='' http='' location
  # Started by root, the worker would change to a user who may not enter the prefix.
  if [[ $(id -u) == 0 ]]; then user="user $(id -un) $(id -gn);"; fi
  case $kind in
    plain) location="proxy_pass http://$upstream;" ;;
    tuned)
      # keepalive_requests: the default of 1000 would close connections in the middle of the load.
      http="keepalive_requests 100000000;
  upstream model_server {
    server $upstream;
    keepalive 64;
    keepalive_requests 100000000;
  }"
      location='proxy_pass http://model_server;
      proxy_http_version 1.1;
      proxy_set_header Connection "";'
      ;;
  esac
  cat <<CONF
$user
daemon off;
worker_processes 1;
pid nginx.pid;
events {
}
http {
  access_log off;
  client_body_temp_path body;
  proxy_temp_path proxy;
  fastcgi_temp_path fastcgi;
  uwsgi_temp_path uwsgi;
  scgi_temp_path scgi;
  $http
  server {
    listen $listen;
    location / {
      $location
      proxy_buffering off;
    }
  }
}
CONF
}
