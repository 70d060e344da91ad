"""HTTP servers of the rows: nginx, and one that delays what it serves."""
import contextlib
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile

from rows import ROOT

PARTS = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")


def nginx_program():
    """The path of nginx; None where it is not installed."""
    return shutil.which("nginx", path=os.environ.get("PATH", "") + ":/usr/sbin")


def nginx_config(folder, port, home):
    """nginx's configuration: one worker that serves a folder and keeps its own files in `home`."""
    user = "user root;\n" if os.geteuid() == 0 else ""
    temporary = "".join(f"{part}_temp_path {home}/{part};\n" for part in PARTS)
    return (f"daemon off; worker_processes 1; pid {home}/pid;\n{user}"
            f"events {{ worker_connections 1024; }}\nhttp {{\naccess_log off;\n{temporary}"
            "keepalive_requests 1000000;\n"
            f"server {{ listen 127.0.0.1:{port}; root {folder}; }}\n}}\n")


@contextlib.contextmanager
def nginx(folder):
    """The URL of `folder` behind nginx. It is given a socket that listens already, so nobody waits
    for it to begin."""
    with socket.create_server(("127.0.0.1", 0)) as listener, tempfile.TemporaryDirectory() as home:
        port = listener.getsockname()[1]
        config = pathlib.Path(home) / "nginx.conf"
        config.write_text(nginx_config(folder, port, home))
        fd = listener.fileno()
        server = subprocess.Popen([nginx_program(), "-c", config, "-e", f"{home}/error.log"],
                                  pass_fds=[fd], env={"NGINX": f"{fd};"})
        listener.close()
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()
            server.wait()


@contextlib.contextmanager
def slow_server(*words):
    """The URL of a server with 50 ms and 20 MB/s a connection (bench/slow_server.py)."""
    with subprocess.Popen([sys.executable, ROOT / "bench" / "slow_server.py", *words],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        yield f"http://127.0.0.1:{server.stdout.readline().strip()}"
        server.stdin.close()


@contextlib.contextmanager
def far_server(folder):
    """The URL of `folder` far away, and the program that has its files: nginx if there is one."""
    if nginx_program() is None:
        with slow_server(folder) as url:
            yield url, "slow_server.py"
        return
    with nginx(folder) as upstream, slow_server("--upstream", upstream) as url:
        yield url, "nginx"
